//! An order is cancelled unless it is paid within 30 minutes: a job per order, and its handle in
//! the order.

use crate::stage::Stage;
use cortado::timer::{CancelOutcome, Handle, TimerError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// When each order comes, and when it is paid.
const ORDERS: [(u32, f64, Option<f64>); 6] = [
    (1, 0.0, Some(4.0)),
    (2, 2.0, None),
    (3, 5.0, Some(34.9)),
    (4, 8.0, Some(40.0)),
    (5, 12.0, None),
    (6, 15.0, Some(16.0)),
];

/// Returns how many orders were paid and how many were cancelled.
///
/// # Errors
///
/// If the timer does not take a job.
pub fn run(stage: &Stage) -> Result<(u32, u32), TimerError> {
    let mut steps: Vec<(f64, u32, bool)> = Vec::new();
    for (order, placed, paid) in ORDERS {
        steps.push((placed, order, false));
        steps.extend(paid.map(|at| (at, order, true)));
    }
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));

    let voice = stage.voice();
    let mut open: BTreeMap<u32, Handle> = BTreeMap::new();
    let (cancelled, mut paid) = (Arc::new(AtomicU32::new(0)), 0);
    for (minutes, order, is_payment) in steps {
        stage.until(minutes);
        if !is_payment {
            voice.say('+', format!("order {order}: please pay"));
            let (voice, cancelled) = (voice.clone(), Arc::clone(&cancelled));
            let unpaid = stage.timer.after(stage.minutes(30.0), move |_| {
                voice.say('x', format!("order {order}: 30 minutes are over, cancelled"));
                cancelled.fetch_add(1, SeqCst);
            })?;
            open.insert(order, unpaid);
        } else if let Some(unpaid) = open.remove(&order) {
            // The answer decides: an order is either paid or cancelled.
            match unpaid.cancel() {
                CancelOutcome::Cancelled => {
                    voice.say('$', format!("order {order}: paid, it ships"));
                    paid += 1;
                }
                CancelOutcome::Running | CancelOutcome::Finished => {
                    voice.say('!', format!("order {order}: too late, the money goes back"));
                }
            }
        }
    }
    stage.until(50.0);
    Ok((paid, cancelled.load(SeqCst)))
}
