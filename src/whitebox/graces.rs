//! Which clients that wait for a grace period are looked for, and when.

use super::*;

const START: Timestamp = Timestamp::from_raw(0);

fn grace(number: u64) -> Grace {
    Grace::from_word(number).unwrap()
}

/// That many grace periods from now.
fn future(number: u64) -> Grace {
    grace(Grace::to_word(Some(crate::epoch::next_grace())) + number)
}

/// Looks in vain become rare: a guard may be held for long. A client that comes starts again.
#[test]
fn looks_in_vain_become_rare() {
    let mut graces = Graces::new();
    assert_eq!(graces.next_look, NEVER);
    let mut now = START;
    graces.add(&Armed::new(ClientId(0)).into(), grace(u64::MAX), now);
    let mut delays = Vec::new();
    while now < Timestamp::from_raw(20_000_000_000) {
        assert!(graces.take_ended(now).is_empty());
        graces.look_later(now);
        delays.push((graces.next_look - now).raw() / 1_000_000);
        now = graces.next_look;
    }
    let first = [2, 2, 2, 2, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000];
    assert_eq!(delays[..first.len()], first);
    assert_eq!(delays.last(), Some(&1000));
    let before = Timestamp::from_raw(now.raw() - LONGEST_DELAY.raw() / 2);
    graces.add(&Armed::new(ClientId(1)).into(), grace(u64::MAX), before);
    assert_eq!(graces.next_look, before.saturating_add(FIRST_DELAY));
}

/// A client that comes late with an early grace period does not wait behind others.
#[test]
fn grace_periods_decide_who_is_first() {
    let mut graces = Graces::new();
    let (early, late) = (crate::epoch::next_grace(), future(1_000_000));
    graces.add(&Armed::new(ClientId(0)).into(), late, START);
    graces.add(&Armed::new(ClientId(1)).into(), early, START);
    while !crate::epoch::hasten(early, 8) {}
    let ended = graces.take_ended(START);
    assert_eq!(ended.iter().map(|armed| armed.id).collect::<Vec<_>>(), [ClientId(1)]);
    assert_eq!(graces.first(), Some(late));
}

/// Caches that are made and dropped while a guard is held leave nothing behind.
#[test]
fn who_is_gone_waits_no_more() {
    let mut graces = Graces::new();
    let (stays, goes) = (Arc::new(Armed::new(ClientId(0))), Arc::new(Armed::new(ClientId(1))));
    graces.add(&stays, future(1_000_000), START);
    graces.add(&goes, future(2_000_000), START);
    graces.add(&goes, future(3_000_000), START);
    graces.remove(&goes);
    assert_eq!(graces.waiting.len(), 1);
    graces.remove(&stays);
    assert_eq!((graces.waiting.len(), graces.next_look), (0, NEVER));
}
