//! The replay example.
//!
//! * [`parser`]: its parser of traces, on files that are right and files that are not.
//! * [`misses`]: its ledger of misses.
//! * [`results`]: the program, run as its users run it.
//! * [`errors`]: the program, given what it has to refuse.

/// Stands for the example's module of this name, which parses the command line.
mod options {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expire {
        Create,
        Write,
        Access,
    }
}

#[path = "../src/ledger.rs"]
mod ledger;
#[path = "../src/trace.rs"]
mod trace;

mod errors;
mod misses;
mod parser;
mod program;
mod results;
