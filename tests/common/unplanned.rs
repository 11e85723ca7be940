//! Counts the panics that a random program has not planned: the library may catch them.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::Cell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

std::thread_local! {
    static UNPLANNED: Cell<u64> = const { Cell::new(0) };
}

/// How many panics with a message this thread has begun. Those that programs plan have none.
pub fn count() -> u64 {
    UNPLANNED.get()
}

/// Has panics counted from now on.
pub fn start_counting() {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            // While the thread's locals are being destroyed nothing is counted.
            _ = UNPLANNED.try_with(|unplanned| unplanned.set(unplanned.get() + 1));
            report(panic);
        }));
    });
}
