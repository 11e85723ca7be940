//! Messages are delivered when their delay is over: a `DelayQueue` that a consumer's own loop
//! polls, as `java.util.concurrent.DelayQueue` or a sorted set in Redis would be.

use crate::stage::Stage;
use cortado::timer::{DelayQueue, Polled};

const MESSAGES: [(&str, f64); 7] = [
    ("welcome to our shop", 0.1),
    ("your parcel arrives tomorrow", 7.0),
    ("please rate your purchase", 9.5),
    ("your basket is waiting", 2.0),
    ("last chance for 10 % off", 4.5),
    ("your table is booked for tonight", 2.5),
    ("the rate of your loan has changed", 8.0),
];

/// Returns the messages in the order of their delivery.
pub fn run(stage: &Stage) -> Vec<&'static str> {
    let voice = stage.voice();
    let mut queue = DelayQueue::new();
    let mut ids = Vec::new();
    for (text, delay) in MESSAGES {
        ids.push(queue.insert_at(text, stage.minutes(delay)));
        voice.say('+', format!("in {delay:3.1} min: {text}"));
    }
    // The guest pays, and cancels the table.
    queue.try_remove(&ids[3]);
    queue.try_reset_at(&ids[4], stage.minutes(1.0));
    voice.say(' ', "the basket was paid; the last chance comes sooner");

    let mut delivered = Vec::new();
    while let Some(next) = queue.next_deadline() {
        stage.until(next.as_secs_f64() / stage.minutes(1.0).as_secs_f64());
        let mut budget = 1024;
        while let Polled::Due(message) = queue.poll(stage.now(), &mut budget) {
            voice.say('>', message.get_ref());
            delivered.push(message.into_inner());
        }
    }
    delivered
}
