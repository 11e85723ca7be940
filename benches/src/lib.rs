//! Benchmarks of cortado live in `benches/`; this library is empty.
