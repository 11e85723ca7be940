//! The README, whose programs are compiled.

#[doc = include_str!("../../README.md")]
mod readme {}
