//! The rules of this repository's own house: which module uses which, where `unsafe` is, who
//! touches which part of the engine's state, how long files and comments are.

mod graph;
mod layers;
mod sources;
mod state;
mod text;
mod unsafety;
