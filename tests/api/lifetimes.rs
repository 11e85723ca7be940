//! Lifetimes in combination: fixed, idle, variable, and at the call.

use crate::common::{MINUTE, SECOND, TICK, Tested, kept, tested};
use cortado::Expiry;
use cortado::RemovalCause::{Expired, Replaced};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const NEVER: Option<Duration> = None;

/// Answers what the test says, and notes what it was asked.
#[derive(Default)]
struct Hooks {
    create: Mutex<Option<Duration>>,
    update: Mutex<Option<Option<Duration>>>,
    read: Mutex<Option<Option<Duration>>>,
    asked: Mutex<Vec<Asked>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Create,
    Update(Option<Duration>),
    /// What was left, and how long ago the value was written.
    Read(Option<Duration>, Duration),
}

impl Hooks {
    fn new(create: Option<Duration>) -> &'static Self {
        let hooks: &'static Self = kept(Default::default());
        *hooks.create.lock().unwrap() = create;
        hooks
    }

    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// What reads answer; `None` leaves the life as it is.
    fn set_read(&self, answer: Option<Option<Duration>>) {
        *self.read.lock().unwrap() = answer;
    }
}

impl Expiry<u32, u32> for &'static Hooks {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        self.asked.lock().unwrap().push(Asked::Create);
        *self.create.lock().unwrap()
    }

    fn expire_after_update(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        self.asked.lock().unwrap().push(Asked::Update(current));
        self.update.lock().unwrap().unwrap_or(current)
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        now: Instant,
        current: Option<Duration>,
        last_modified: Instant,
    ) -> Option<Duration> {
        self.asked.lock().unwrap().push(Asked::Read(current, now - last_modified));
        self.read.lock().unwrap().unwrap_or(current)
    }
}

fn left(cache: &Tested<u32, u32>) -> Option<Option<Duration>> {
    cache.expires_in(&1).into_options()
}

#[test]
fn of_fixed_and_idle_lifetimes_the_earlier_ends_an_entry() {
    let cache: Tested<u32, u32> =
        tested(|builder| builder.time_to_live(100 * SECOND).time_to_idle(40 * SECOND));
    cache.insert(1, 1);
    assert_eq!(left(&cache), Some(Some(40 * SECOND)));
    for expected in [40, 40, 10] {
        cache.pass(30 * SECOND);
        assert_eq!(cache.get(&1), Some(1));
        assert_eq!(left(&cache), Some(Some(expected * SECOND)));
    }
    // However often it is read.
    cache.pass(10 * SECOND - Duration::from_nanos(1));
    assert_eq!(cache.get(&1), Some(1));
    cache.pass(Duration::from_nanos(1));
    assert_eq!(cache.get(&1), None);
    cache.pass(TICK);
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.audit();
}

#[test]
fn of_fixed_and_variable_lifetimes_the_earlier_ends_an_entry() {
    for (variable, expected) in [(Some(30), 30), (Some(90), 60), (None, 60)] {
        let hooks = Hooks::new(variable.map(Duration::from_secs));
        let cache = tested(|builder| builder.time_to_live(MINUTE).expire_after(hooks));
        cache.insert(1, 1);
        assert_eq!(left(&cache), Some(Some(expected * SECOND)));
        // A read cannot get past the fixed end, which counts from the write.
        cache.hand.advance(20 * SECOND);
        hooks.set_read(Some(Some(MINUTE)));
        cache.get(&1);
        assert_eq!(left(&cache), Some(Some(40 * SECOND)));
        hooks.set_read(Some(NEVER));
        cache.get(&1);
        assert_eq!(left(&cache), Some(Some(40 * SECOND)));
        cache.pass(40 * SECOND + TICK);
        assert_eq!(cache.causes(), [(1, Expired)]);
        cache.audit();
    }
}

#[test]
fn of_idle_and_variable_lifetimes_the_earlier_ends_an_entry() {
    let hooks = Hooks::new(Some(50 * SECOND));
    let cache = tested(|builder| builder.time_to_idle(30 * SECOND).expire_after(hooks));
    cache.insert(1, 1);
    assert_eq!(left(&cache), Some(Some(30 * SECOND)));
    cache.hand.advance(25 * SECOND);
    cache.get(&1);
    // The hook is told of its own part, without the idle time.
    assert_eq!(hooks.asked(), [Asked::Create, Asked::Read(Some(25 * SECOND), 25 * SECOND)]);
    assert_eq!(left(&cache), Some(Some(25 * SECOND)));
    // A read that prolongs the variable part.
    cache.hand.advance(20 * SECOND);
    hooks.set_read(Some(Some(100 * SECOND)));
    cache.get(&1);
    assert_eq!(left(&cache), Some(Some(30 * SECOND)));
    hooks.set_read(Some(Some(10 * SECOND)));
    cache.get(&1);
    assert_eq!(left(&cache), Some(Some(10 * SECOND)));
    hooks.set_read(Some(NEVER));
    cache.get(&1);
    assert_eq!(left(&cache), Some(Some(30 * SECOND)));
    cache.pass(30 * SECOND + TICK);
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.audit();
}

#[test]
fn all_three_at_once() {
    let hooks = Hooks::new(Some(50 * SECOND));
    let cache = tested(|builder| {
        builder.time_to_live(40 * SECOND).time_to_idle(15 * SECOND).expire_after(hooks)
    });
    cache.insert(1, 1);
    for expected in [15, 15, 10, 0] {
        cache.hand.advance(10 * SECOND);
        assert_eq!(cache.get(&1).is_some(), expected > 0);
        assert_eq!(left(&cache), (expected > 0).then_some(Some(expected * SECOND)));
    }
    cache.audit();
}

#[test]
fn a_lifetime_at_the_call_takes_the_place_of_the_policy_but_not_of_the_idle_time() {
    let hooks = Hooks::new(Some(20 * SECOND));
    let fixed = tested(|builder| builder.time_to_live(MINUTE).expire_after(hooks));
    fixed.insert_with_ttl(1, 1, 10 * MINUTE);
    assert_eq!(left(&fixed), Some(Some(10 * MINUTE)));
    assert_eq!(hooks.asked(), []);
    // A read that leaves it alone leaves it as it is.
    fixed.hand.advance(5 * MINUTE);
    fixed.get(&1);
    assert_eq!(hooks.asked(), [Asked::Read(Some(5 * MINUTE), 5 * MINUTE)]);
    assert_eq!(left(&fixed), Some(Some(5 * MINUTE)));
    // The next update is the policy's.
    fixed.insert(1, 2);
    assert_eq!(hooks.asked(), [Asked::Update(Some(5 * MINUTE))]);
    assert_eq!(left(&fixed), Some(Some(MINUTE)));
    fixed.audit();

    let idle: Tested<u32, u32> = tested(|builder| builder.time_to_idle(MINUTE));
    idle.insert_with_ttl(1, 1, 90 * SECOND);
    assert_eq!(left(&idle), Some(Some(MINUTE)));
    idle.hand.advance(50 * SECOND);
    idle.get(&1);
    assert_eq!(left(&idle), Some(Some(40 * SECOND)));
    assert!(idle.set_ttl(&1, 10 * MINUTE));
    assert_eq!(left(&idle), Some(Some(MINUTE)));
    idle.hand.advance(50 * SECOND);
    idle.get(&1);
    assert_eq!(left(&idle), Some(Some(MINUTE)));
    idle.audit();
}

/// Of a policy that tells the life of a new entry and nothing else.
#[test]
fn without_hooks_of_its_own_a_policy_renews_by_writes_and_not_by_reads() {
    struct Minute;
    impl Expiry<u32, u32> for Minute {
        fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
            Some(MINUTE)
        }
    }
    for policy in
        [Box::new(Minute) as Box<dyn Expiry<u32, u32> + Send + Sync>, Box::new(Box::new(Minute))]
    {
        let cache = tested(|builder| builder.expire_after(policy));
        cache.insert(1, 1);
        cache.hand.advance(20 * SECOND);
        assert_eq!(cache.get(&1), Some(1));
        assert_eq!(left(&cache), Some(Some(40 * SECOND)));
        cache.insert(1, 2);
        assert_eq!(left(&cache), Some(Some(MINUTE)));
        cache.pass(MINUTE + TICK);
        assert_eq!(cache.causes(), [(1, Replaced), (1, Expired)]);
        cache.audit();
    }
}

#[test]
fn a_read_hook_may_end_an_entry() {
    for answer in [Duration::ZERO, Duration::from_nanos(1)] {
        let hooks = Hooks::new(Some(MINUTE));
        let cache = tested(|builder| builder.max_capacity(10).expire_after(hooks));
        cache.insert(1, 1);
        cache.settle();
        hooks.set_read(Some(Some(answer)));
        // The read that ends it still sees it: it lived when it was asked for.
        assert_eq!(cache.get(&1), Some(1));
        cache.hand.advance(answer);
        assert_eq!(cache.get(&1), None);
        assert!(!cache.contains_key(&1));
        cache.pass(TICK);
        assert_eq!(cache.causes(), [(1, Expired)]);
        cache.audit();
    }
}

#[test]
fn a_read_hook_may_give_an_end_to_what_had_none_and_take_it_away() {
    let hooks = Hooks::new(NEVER);
    let cache = tested(|builder| builder.expire_after(hooks));
    cache.insert(1, 1);
    cache.insert(2, 2);
    assert_eq!(left(&cache), Some(None));
    hooks.set_read(Some(Some(10 * SECOND)));
    cache.get(&1);
    cache.get(&2);
    assert_eq!(left(&cache), Some(Some(10 * SECOND)));
    cache.settle();
    hooks.set_read(Some(NEVER));
    cache.get(&1);
    assert_eq!(left(&cache), Some(None));
    cache.pass(10 * SECOND + TICK);
    assert_eq!(cache.causes(), [(2, Expired)]);
    assert_eq!(cache.get(&1), Some(1));
    cache.audit();
}

#[test]
fn an_update_hook_sees_what_is_left_and_may_keep_it() {
    let hooks = Hooks::new(Some(MINUTE));
    let cache = tested(|builder| builder.expire_after(hooks));
    cache.insert(1, 1);
    cache.hand.advance(20 * SECOND);
    cache.insert(1, 2);
    assert_eq!(hooks.asked(), [Asked::Create, Asked::Update(Some(40 * SECOND))]);
    assert_eq!(left(&cache), Some(Some(40 * SECOND)));
    *hooks.update.lock().unwrap() = Some(NEVER);
    cache.insert(1, 3);
    assert_eq!(left(&cache), Some(None));
    cache.insert(1, 4);
    assert_eq!(hooks.asked(), [Asked::Update(Some(40 * SECOND)), Asked::Update(None)]);
    *hooks.update.lock().unwrap() = Some(Some(Duration::ZERO));
    cache.insert(1, 5);
    assert_eq!(left(&cache), None);
    cache.audit();
    assert_eq!(cache.entry_count(), 0);
}
