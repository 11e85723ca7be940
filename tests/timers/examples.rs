//! The programs of `examples/timers`, on a manual clock.

#[path = "../../examples/timers/connections.rs"]
mod connections;
#[path = "../../examples/timers/messages.rs"]
mod messages;
#[path = "../../examples/timers/orders.rs"]
mod orders;
#[path = "../../examples/timers/replicas.rs"]
mod replicas;
#[path = "../../examples/timers/retries.rs"]
mod retries;

use crate::stage::Stage;
use std::time::Duration;

#[test]
fn orders_are_paid_or_cancelled() {
    let stage = Stage::manual();
    assert_eq!(orders::run(&stage).unwrap(), (3, 3));
    let lines = stage.lines();
    let cancelled: Vec<&String> = lines.iter().filter(|line| line.contains("cancelled")).collect();
    assert!(cancelled[0].starts_with(" 32.00 min  x order 2"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("order 4: too late")));
}

#[test]
fn retries_end_with_the_first_success() {
    let stage = Stage::manual();
    assert_eq!(retries::run(&stage).unwrap(), 6);
    assert_eq!(stage.timer.pending(), 0);
}

#[test]
fn requests_are_answered_or_time_out() {
    let stage = Stage::manual();
    assert_eq!(replicas::run(&stage).unwrap(), (4, 2));
    assert_eq!(stage.timer.pending(), 0, "no timeout is left behind");
}

#[test]
fn messages_come_in_the_order_of_their_delays() {
    let delivered = messages::run(&Stage::manual());
    let first_words: Vec<&str> = delivered.iter().map(|it| it.split(' ').next().unwrap()).collect();
    assert_eq!(first_words, ["welcome", "last", "your", "your", "the", "please"]);
    assert!(!delivered.contains(&"your basket is waiting"));
}

#[test]
fn idle_connections_are_closed_and_others_stay() {
    let totals = connections::run(&Stage::manual(), 20_000);
    assert!(totals.extended > 20 * totals.timed_out && totals.timed_out > 0, "{totals:?}");
    assert!(totals.latest < Duration::from_secs(1), "by one step at most: {totals:?}");
}
