//! The wheel against a model, in random programs (`tests/wheel_model`). `PROPTEST_CASES` says how
//! many.

mod wheel_model;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use wheel_model::{HEADER_LEN, OP_LEN, run};

proptest! {
    #![proptest_config(Config {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { 1_500 },
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn agrees_with_the_model(
        header in any::<[u8; HEADER_LEN]>(),
        ops in vec(any::<[u8; OP_LEN]>(), 0..120),
    ) {
        run(&[&header[..], ops.as_flattened()].concat());
    }
}

/// The programs do reach what they are for: most timers are handed out somewhere.
#[test]
fn programs_hand_out_timers() {
    let mut random = 0_u64;
    let mut fired = 0;
    for _ in 0..50 {
        let bytes: Vec<u8> = (0..HEADER_LEN + 100 * OP_LEN)
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 56) as u8
            })
            .collect();
        fired += run(&bytes);
    }
    assert!(fired > 50 * 20, "{fired}");
}
