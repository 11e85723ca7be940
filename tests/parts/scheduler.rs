//! The scheduler on its real thread. Nothing here asserts a time: `HANG` only bounds how long a
//! failure takes, and `LATER` is never reached.
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use cortado::internals::epoch;
use cortado::internals::scheduler::{Alarm, Counts, Registration, Scheduled, Scheduler};

const HANG: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(100_000);

/// A client that does what it is told and tells about it.
struct Client {
    name: &'static str,
    act: Box<dyn Fn() -> Option<Duration> + Send + Sync>,
    events: Mutex<Sender<String>>,
    registration: OnceLock<Registration>,
}

impl Client {
    fn new(
        scheduler: &Scheduler,
        name: &'static str,
        events: &Sender<String>,
        act: impl Fn() -> Option<Duration> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let client = Arc::new(Self {
            name,
            act: Box::new(act),
            events: Mutex::new(events.clone()),
            registration: OnceLock::new(),
        });
        let weak: Weak<Self> = Arc::downgrade(&client);
        let registration = scheduler.register(weak).unwrap();
        assert!(client.registration.set(registration).is_ok());
        client
    }

    fn tell(&self, what: &str) {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("?");
        let _ = self.events.lock().unwrap().send(format!("{} {what} on {thread}", self.name));
    }

    fn registration(&self) -> &Registration {
        self.registration.get().unwrap()
    }
}

impl Scheduled for Client {
    fn run(&self) -> Option<Duration> {
        self.tell("runs");
        (self.act)()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tell("is dropped");
    }
}

fn next(events: &Receiver<String>) -> String {
    events.recv_timeout(HANG).expect("the scheduler hangs")
}

/// Waits for what comes about by itself.
fn wait_until(scheduler: &Scheduler, reached: impl Fn(Counts) -> bool) -> Counts {
    let start = Instant::now();
    loop {
        let counts = scheduler.counts();
        if reached(counts) {
            return counts;
        }
        assert!(start.elapsed() < HANG, "never reached: {counts:?}");
        thread::yield_now();
    }
}

#[test]
fn one_thread_runs_all_clients_on_demand() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    assert_eq!(scheduler.counts().threads_started, 0);
    let names = ["a", "b", "c"];
    let clients = names.map(|name| Client::new(&scheduler, name, &tell, || None));
    for _ in 0..3 {
        for client in &clients {
            client.registration().wake_now();
        }
        let ran: HashSet<String> = names.iter().map(|_| next(&events)).collect();
        assert_eq!(ran, names.map(|name| format!("{name} runs on cortado-scheduler")).into());
    }
    let counts = scheduler.counts();
    assert_eq!(
        counts,
        Counts { clients: 3, serving: true, threads_started: 1, panics: 0, looks: 0 }
    );
}

#[test]
fn an_earlier_deadline_wakes_the_thread_and_a_later_one_changes_nothing() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    let far = Client::new(&scheduler, "far", &tell, || None);
    let near = Client::new(&scheduler, "near", &tell, || Some(LATER));
    far.registration().wake_within(LATER);
    far.registration().wake_within(Duration::MAX);
    near.registration().wake_within(Duration::from_millis(1));
    assert_eq!(next(&events), "near runs on cortado-scheduler");
    near.registration().wake_within(LATER * 2);
    near.registration().wake_now();
    assert_eq!(next(&events), "near runs on cortado-scheduler");
    far.registration().wake_now();
    assert_eq!(next(&events), "far runs on cortado-scheduler");
    drop((far, near));
    assert_eq!(events.iter().take(2).filter(|event| event.contains("dropped")).count(), 2);
}

#[test]
fn a_client_that_names_a_time_is_run_again_by_itself() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    let client = Client::new(&scheduler, "a", &tell, || Some(Duration::from_millis(1)));
    client.registration().wake_now();
    for _ in 0..5 {
        assert_eq!(next(&events), "a runs on cortado-scheduler");
    }
}

#[test]
fn a_client_that_is_always_due_starves_nobody() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    let (quiet, _no_events) = channel();
    let busy = Client::new(&scheduler, "busy", &quiet, || Some(Duration::ZERO));
    let other = Client::new(&scheduler, "other", &tell, || None);
    busy.registration().wake_now();
    for _ in 0..3 {
        other.registration().wake_now();
        assert_eq!(next(&events), "other runs on cortado-scheduler");
    }
}

#[test]
fn arming_during_a_run_is_not_overlooked() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let client = Client::new(&scheduler, "a", &tell, move || {
        wait.lock().unwrap().recv_timeout(HANG).unwrap();
        Some(LATER)
    });
    client.registration().wake_now();
    assert_eq!(next(&events), "a runs on cortado-scheduler");
    client.registration().wake_now();
    go.send(()).unwrap();
    assert_eq!(next(&events), "a runs on cortado-scheduler");
    go.send(()).unwrap();
}

#[test]
fn the_thread_ends_with_the_last_client_and_begins_with_the_next() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    for round in 1..=3 {
        let client = Client::new(&scheduler, "a", &tell, || None);
        client.registration().wake_now();
        assert_eq!(next(&events), "a runs on cortado-scheduler");
        client.registration().wake_within(LATER);
        drop(client);
        assert!(next(&events).starts_with("a is dropped"));
        let counts = wait_until(&scheduler, |counts| !counts.serving);
        assert_eq!((counts.clients, counts.threads_started), (0, round));
    }
}

#[test]
fn a_client_whose_registration_is_kept_elsewhere_is_forgotten_when_found_dead() {
    struct Bare;
    impl Scheduled for Bare {
        fn run(&self) -> Option<Duration> {
            None
        }
    }
    let scheduler = Scheduler::new();
    let bare = Arc::new(Bare);
    let weak: Weak<Bare> = Arc::downgrade(&bare);
    let registration = scheduler.register(weak).unwrap();
    drop(bare);
    registration.wake_now();
    wait_until(&scheduler, |counts| counts.clients == 0 && !counts.serving);
    registration.wake_now();
}

#[test]
fn a_client_that_panics_stops_nobody() {
    /// Panics once more when what was thrown is dropped.
    struct Twice;
    impl Drop for Twice {
        fn drop(&mut self) {
            panic!("seeded: second");
        }
    }
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    let bad = Client::new(&scheduler, "bad", &tell, || std::panic::panic_any(Twice));
    let good = Client::new(&scheduler, "good", &tell, || None);
    for round in 1..=3 {
        bad.registration().wake_now();
        assert_eq!(next(&events), "bad runs on cortado-scheduler");
        wait_until(&scheduler, |counts| counts.panics == round);
        good.registration().wake_now();
        assert_eq!(next(&events), "good runs on cortado-scheduler");
    }
    assert_eq!(scheduler.counts().threads_started, 1);
}

#[test]
fn the_last_handle_may_be_dropped_by_the_thread() {
    let scheduler = Scheduler::new();
    let (tell, events) = channel();
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let client = Client::new(&scheduler, "a", &tell, move || {
        wait.lock().unwrap().recv_timeout(HANG).unwrap();
        Some(Duration::ZERO)
    });
    client.registration().wake_now();
    assert_eq!(next(&events), "a runs on cortado-scheduler");
    drop(client);
    assert!(events.try_recv().is_err(), "dropped while it runs");
    go.send(()).unwrap();
    assert_eq!(next(&events), "a is dropped on cortado-scheduler");
    wait_until(&scheduler, |counts| counts.clients == 0 && !counts.serving);
}

#[test]
fn a_run_may_register_and_deregister() {
    struct Parent {
        scheduler: Arc<Scheduler>,
        child: Arc<Client>,
        registrations: Mutex<Vec<Registration>>,
    }
    impl Scheduled for Parent {
        fn run(&self) -> Option<Duration> {
            let weak: Weak<Client> = Arc::downgrade(&self.child);
            let second = self.scheduler.register(weak).unwrap();
            second.wake_now();
            // Among them its own.
            *self.registrations.lock().unwrap() = vec![second];
            Some(Duration::ZERO)
        }
    }
    let scheduler = Arc::new(Scheduler::new());
    let (tell, events) = channel();
    let parent = Arc::new(Parent {
        scheduler: Arc::clone(&scheduler),
        child: Client::new(&scheduler, "child", &tell, || None),
        registrations: Mutex::new(Vec::new()),
    });
    let weak: Weak<Parent> = Arc::downgrade(&parent);
    let own = scheduler.register(weak).unwrap();
    parent.registrations.lock().unwrap().push(own);
    parent.registrations.lock().unwrap()[0].wake_now();
    assert_eq!(next(&events), "child runs on cortado-scheduler");
    assert_eq!(scheduler.counts().clients, 2, "the child, twice");
}

#[test]
fn there_is_one_for_the_process() {
    assert!(std::ptr::eq(Scheduler::global(), Scheduler::global()));
    let (tell, events) = channel();
    let client = Client::new(Scheduler::global(), "a", &tell, || None);
    client.registration().wake_now();
    assert_eq!(next(&events), "a runs on cortado-scheduler");
}

/// Threads change a word and wake the client; the client keeps the last that it saw. Whatever was
/// changed is seen in the end without another wake.
#[test]
fn no_wake_is_lost_on_real_threads() {
    const ROUNDS: u64 = 2_000;
    let scheduler = Scheduler::new();
    let (tell, _events) = channel();
    let word = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    let client = {
        let (word, seen) = (Arc::clone(&word), Arc::clone(&seen));
        Client::new(&scheduler, "a", &tell, move || {
            seen.store(word.load(SeqCst), SeqCst);
            None
        })
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mine = word.fetch_add(1, SeqCst) + 1;
                    client.registration().wake_now();
                    wait_until(&scheduler, |_| seen.load(SeqCst) >= mine);
                }
            });
        }
    });
    assert_eq!(seen.load(SeqCst), 2 * ROUNDS);
}

/// However many clients wait for a grace period under a guard, none of them runs. Each runs once
/// after it. (Guards of other tests may delay that for a moment.)
#[test]
fn clients_run_once_after_a_guard() {
    let (scheduler, (events, told)) = (Scheduler::new(), channel());
    let guard = epoch::pin();
    let clients: Vec<_> =
        (0..1000).map(|_| Client::new(&scheduler, "client", &events, || None)).collect();
    let grace = epoch::next_grace();
    for client in clients.iter().chain(&clients) {
        client.registration().wake_after(grace);
    }
    let looked = scheduler.counts().looks;
    while scheduler.counts().looks < looked + 3 {
        thread::yield_now();
    }
    assert!(told.try_recv().is_err(), "a client runs under the guard");
    drop(guard);
    for _ in &clients {
        assert_eq!(told.recv_timeout(HANG).as_deref(), Ok("client runs on cortado-scheduler"));
    }
    // A client that is run at once comes after all that were due before.
    let last = Client::new(&scheduler, "last", &events, || None);
    last.registration().wake_now();
    assert_eq!(told.recv_timeout(HANG).as_deref(), Ok("last runs on cortado-scheduler"));
}
