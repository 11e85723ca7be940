//! A clock whose reading runs what others do while the reader is preempted: between the
//! reading and what is done by it.
#![allow(dead_code, reason = "each test binary uses its part")]

use cortado::Clock;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

type Meanwhile = Box<dyn FnOnce()>;

std::thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// In how many readings from now on, and what happens then.
    static MEANWHILE: RefCell<Option<(u32, Meanwhile)>> = const { RefCell::new(None) };
}

/// What the clock shows to this thread from now on.
pub fn set_now(now: Duration) {
    NOW.set(now);
}

pub fn clock() -> Clock {
    Clock::custom(|| {
        let now = NOW.get();
        let meanwhile = MEANWHILE.with_borrow_mut(|slot| {
            let left = &mut slot.as_mut()?.0;
            *left -= 1;
            if *left == 0 { slot.take() } else { None }
        });
        if let Some((_, meanwhile)) = meanwhile {
            meanwhile();
        }
        now
    })
}

/// Runs `outer`, in whose reading number `nth` of the clock `inner` happens; `None` if it makes
/// fewer. What would have to wait for `outer` does not happen.
pub fn amid<T, U: 'static>(
    nth: u32,
    inner: impl FnOnce() -> U + 'static,
    outer: impl FnOnce() -> T,
) -> Option<(T, Option<U>)> {
    let slot = Rc::new(RefCell::new(None));
    let result = Rc::clone(&slot);
    let meanwhile = move || {
        let outcome = catch_unwind(AssertUnwindSafe(inner));
        *result.borrow_mut() = Some(outcome.map_err(|panic| {
            let message = panic.downcast_ref::<&str>().copied();
            assert_eq!(message, Some("a load or computation waits for its own key"));
        }));
    };
    MEANWHILE.set(Some((nth, Box::new(meanwhile))));
    let outcome = outer();
    MEANWHILE.set(None);
    slot.take().map(|inner| (outcome, inner.ok()))
}
