//! What is in the caches, which keys are asked for, and what is done with each.

use crate::subject::{Subject, Value};
use clap::ValueEnum;
use rand::distr::Distribution;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use rand_distr::Zipf;
use std::hint::black_box;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    HotKey,
    Zipf,
    Mixed,
    Updates,
    ReadThrough,
    UniqueInserts,
    LoadHotKey,
    LoadZipf,
    LoadThrough,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Self::HotKey => "one hot key",
            Self::Zipf => "zipf reads, all resident",
            Self::Mixed => "90 % reads, 10 % updates",
            Self::Updates => "updates",
            Self::ReadThrough => "read-through at 10 % of the keys",
            Self::UniqueInserts => "unique inserts, full",
            Self::LoadHotKey => "loads of one hot key",
            Self::LoadZipf => "zipf loads, all resident",
            Self::LoadThrough => "loads at 10 % of the keys",
        }
    }

    pub fn capacity(self, keys: u64) -> u64 {
        match self {
            Self::ReadThrough | Self::LoadThrough => keys / 10,
            Self::UniqueInserts => keys / 4,
            _ => keys * 2,
        }
    }

    /// How many entries there are to begin with.
    pub fn filled(self, keys: u64) -> u64 {
        match self {
            Self::ReadThrough | Self::LoadThrough => keys / 10,
            Self::UniqueInserts => keys / 2,
            _ => keys,
        }
    }

    #[inline(always)]
    pub fn step<V: Value>(self, subject: &dyn Subject<V>, key: u64, number: usize) {
        match self {
            Self::HotKey | Self::Zipf => _ = black_box(subject.get(key)),
            Self::LoadHotKey | Self::LoadZipf | Self::LoadThrough => {
                _ = black_box(subject.load(key));
            }
            Self::Mixed if !number.is_multiple_of(10) => _ = black_box(subject.get(key)),
            Self::Mixed | Self::Updates | Self::UniqueInserts => subject.insert(key, V::of(key)),
            Self::ReadThrough => {
                if !subject.get(key) {
                    subject.insert(key, V::of(key));
                }
            }
        }
    }
}

/// The keys of one thread in one round, the same for each subject.
pub fn stream(workload: Workload, keys: u64, operations: usize, number: u64) -> Vec<u64> {
    let mut rng = SmallRng::seed_from_u64(number);
    match workload {
        Workload::HotKey | Workload::LoadHotKey => vec![1; operations],
        // No key comes twice, neither in other rounds nor on other threads.
        Workload::UniqueInserts => {
            let first = (number + 1) << 32 | u64::from(rng.random::<u16>());
            (first..).take(operations).collect()
        }
        _ => {
            let zipf = Zipf::new(keys as f64, 0.99).expect("a valid distribution");
            (0..operations).map(|_| zipf.sample(&mut rng) as u64 - 1).collect()
        }
    }
}
