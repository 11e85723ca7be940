//! From bytes to cases.

use super::case::*;
use std::time::Duration;

/// Bytes of the configuration and of one operation.
pub const HEADER: usize = 8;
pub const RECORD: usize = 6;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

const SPANS: [Duration; 16] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_nanos(2),
    Duration::from_nanos(999_999),
    Duration::from_millis(1),
    Duration::from_millis(50),
    Duration::from_nanos(SECOND - 1),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(65),
    Duration::from_secs(3600),
    Duration::from_nanos(DAY),
    Duration::from_nanos(7 * DAY),
    Duration::from_nanos(400 * DAY),
    Duration::from_nanos(36_500 * DAY),
    Duration::MAX,
];

fn span(byte: u8) -> Duration {
    SPANS[usize::from(byte) % SPANS.len()]
}

fn shift(byte: u8) -> Shift {
    match byte {
        0..208 => Shift::Ahead(span(byte)),
        _ => Shift::Back(span(byte)),
    }
}

impl Config {
    pub fn decode(bytes: &[u8; HEADER]) -> Self {
        let [capacity, kind, live, idle, expiry, resolution, keys, start] = *bytes;
        Self {
            max_capacity: match capacity % 16 {
                0..4 => None,
                n @ 4..13 => Some(u64::from(n) - 4),
                13 => Some(16),
                14 => Some(40),
                _ => Some(100),
            },
            weigher: kind & 1 != 0,
            record_stats: kind & 2 != 0,
            colliding: kind & 12 == 12,
            listens_twice: kind & 128 != 0,
            eviction: match kind >> 5 & 3 {
                0..2 => Eviction::TinyLfu,
                2 => Eviction::SegmentedLru,
                _ => Eviction::Lru,
            },
            initial_capacity: if kind & 16 != 0 { 100 } else { 0 },
            time_to_live: (live & 3 == 1).then(|| span(live >> 2)),
            time_to_idle: (idle & 3 == 1).then(|| span(idle >> 2)),
            expiry: match expiry % 10 {
                0 => Policy::None,
                1 => Policy::Silent,
                2 => Policy::CreateOnly,
                3..6 => Policy::Full,
                6 => Policy::Blind,
                7 => Policy::OnCreate,
                8 => Policy::OnWrite,
                _ => Policy::OnAccess,
            },
            resolution: match resolution % 4 {
                0..2 => None,
                2 => Some(Duration::from_millis(1)),
                _ => Some(Duration::from_millis(100)),
            },
            by_tasks: keys & 8 != 0,
            keys: [1, 2, 3, 6, 12, 24, 48, 200][usize::from(keys % 8)],
            start: match start % 8 {
                0..4 => Duration::ZERO,
                4 => Duration::from_nanos(SECOND),
                5 => Duration::from_nanos(1 << 40),
                6 => Duration::from_nanos((1 << 62) - 1),
                _ => Duration::from_nanos(3 << 61),
            },
        }
    }
}

impl Case {
    /// A case from any bytes at all.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut header = [0; HEADER];
        let (head, body) = bytes.split_at(bytes.len().min(HEADER));
        header[..head.len()].copy_from_slice(head);
        let records = body.chunks_exact(RECORD).map(|chunk| {
            let mut record = [0; RECORD];
            record.copy_from_slice(chunk);
            record
        });
        Self::from_records(&header, records)
    }

    pub fn from_records(
        header: &[u8; HEADER],
        records: impl IntoIterator<Item = [u8; RECORD]>,
    ) -> Self {
        let config = Config::decode(header);
        let ops = records.into_iter().map(|record| Op::decode(&config, record)).collect();
        Self { config, ops }
    }
}

impl Op {
    fn decode(config: &Config, [op, key, a, b, c, d]: [u8; RECORD]) -> Self {
        let key = key % config.keys;
        let traits = traits(config, a, b, c);
        match op % 128 {
            0..4 => Self::Get(key),
            4..6 => Self::GetIf(key, a),
            6..9 => Self::GetEntry { key, keep: a & 7 == 0 },
            9 => Self::Peek(key),
            10 => Self::ContainsKey(key),
            11..13 => Self::Pinned(key),
            13..15 => Self::Touch(key),
            15..24 => Self::Insert(key, traits, Term::Policy),
            24..27 => Self::Insert(key, traits, Term::For(span(d))),
            27..29 => Self::Insert(key, traits, Term::Until(shift(d))),
            29 => Self::Remove(key),
            30 => Self::RemoveEntry { key, keep: a & 3 == 0 },
            31 => Self::RemoveIf(key, a & 1 == 0),
            32 => Self::Invalidate(key),
            33 if a & 1 == 0 => Self::InvalidateAll,
            33 => Self::Iterate,
            34 => Self::Retain(a),
            35 => Self::Iterate,
            36..41 => {
                let how = Loading { by_entry: op % 128 >= 39, ..PLAIN };
                Self::Load(key, traits, how, while_loading(config, traits, d))
            }
            41..45 => {
                let decision = match d % 4 {
                    0 => Decision::Nop,
                    1 => Decision::Remove,
                    _ => Decision::Put(traits, (a & 3 == 3).then(|| span(b))),
                };
                Self::Compute(key, decision, while_computing(config, traits, d / 4, a))
            }
            45..47 => Self::SetTtl(key, span(a)),
            47 => Self::SetExpiresAt(key, shift(a)),
            48 => Self::Persist(key),
            49 => Self::ExpiresIn(key),
            50..53 => Self::RunPending,
            53 => Self::RunWithin(a % 8),
            54 if a & 0xf0 == 0xf0 => Self::Close,
            55..64 | 116.. => Self::Step(step(key, a, b)),
            _ => Self::decode_more(config, [op, key, a, b, c, d], traits),
        }
    }

    fn decode_more(config: &Config, [op, key, a, b, c, d]: [u8; RECORD], traits: Traits) -> Self {
        // Choices that are independent of the traits, more or less.
        let mix = a.wrapping_mul(31) ^ b.wrapping_mul(17) ^ c.rotate_left(5) ^ d;
        let keys = Keys { first: key, stride: mix >> 2 & 3, count: 1 + (mix & 3) };
        let decision = match d % 5 {
            0 => Decision::Nop,
            1 => Decision::Remove,
            2 => Decision::Fail,
            _ => Decision::Put(traits, (mix & 3 == 3).then(|| span(mix >> 2))),
        };
        let life = (d & 3 == 0).then(|| span(d >> 2));
        match op % 128 {
            64..76 => Self::Load(key, traits, loading(mix, d), while_loading(config, traits, d)),
            76..79 => Self::LoadIf(key, traits, mix, while_loading(config, traits, d)),
            79..82 => Self::Replace(key, traits, life),
            82..84 => Self::Upsert(key, traits, while_computing(config, traits, d, a)),
            84..86 => Self::TryCompute(key, decision, while_computing(config, traits, d / 5, a)),
            86..91 => Self::TakeGuard(key),
            91..95 => Self::UseGuard(key, traits, life),
            95..97 => Self::DropGuard(key),
            97..99 => Self::GetMany(keys),
            99..104 => {
                let extra = config.max_capacity.is_none() && mix & 0x30 == 0;
                let made = ManyMade {
                    mask: if mix & 0x40 == 0 { 0xf } else { mix >> 4 },
                    fails: d >> 5 == 7,
                    extra: extra.then_some(key),
                };
                Self::LoadMany(keys, traits, made, while_loading(config, traits, d))
            }
            104 => Self::InsertMany(keys, traits, life.map_or(Term::Policy, Term::For)),
            105 => Self::InsertMany(keys, traits, Term::Until(shift(d))),
            106 => Self::InvalidateMany(keys),
            107 => Self::InvalidateIf(a),
            108 => Self::Drain(if d & 1 == 0 { usize::MAX } else { usize::from(d >> 4) }),
            109 => Self::InOrder { latest: d & 1 == 0, limit: usize::from(d >> 2) },
            110..112 => Self::SetCapacity([0, 1, 2, 3, 5, 16, 40, 100][usize::from(d % 8)]),
            112..114 => Self::SetLive((d & 1 == 0).then(|| span(d >> 1))),
            _ => Self::SetIdle(span(d)),
        }
    }
}

/// `get_with`.
const PLAIN: Loading =
    Loading { kind: Kind::Nothing, by_entry: false, by_ref: false, loaded: None, makes: true };

fn loading(mix: u8, d: u8) -> Loading {
    let kind = [Kind::Nothing, Kind::None, Kind::Text, Kind::Number][usize::from(mix & 3)];
    Loading {
        kind,
        by_entry: mix & 4 != 0,
        by_ref: mix & 8 != 0,
        loaded: (mix & 16 != 0).then(|| (d & 16 != 0).then(|| span(d >> 4))),
        makes: kind == Kind::Nothing || mix & 32 == 0,
    }
}

fn step(key: u8, a: u8, b: u8) -> Step {
    match a % 16 {
        0..5 => Step::ToDeadline(key, [-1, -1, 0, 0, 1][usize::from(b % 5)]),
        5..8 => Step::PastTick(key),
        // The end of time, and steps back, are rare: little happens after them.
        8 if b >= 192 => Step::By(Shift::Back(span(b))),
        8 if b >= 190 => Step::By(Shift::Ahead(Duration::MAX)),
        _ => Step::By(Shift::Ahead(SPANS[usize::from(b) % (SPANS.len() - 2)])),
    }
}

fn traits(config: &Config, a: u8, b: u8, c: u8) -> Traits {
    let heaviest = config.max_capacity.map_or(8, |capacity| capacity + 1) as u32;
    let weight = match b >> 4 {
        0..6 => 1,
        6 => heaviest - 1,
        7 => heaviest,
        n => u32::from(n) % (heaviest + 1),
    };
    Traits {
        create: (!a.is_multiple_of(5)).then(|| span(a / 5)),
        update: rule(b & 15, a),
        read: rule(c & 15, c >> 4),
        weight: if config.weigher { weight } else { 1 },
        weigher_panics: config.weigher && c == 0xff,
    }
}

fn rule(kind: u8, parameter: u8) -> Rule {
    match kind {
        0..4 => Rule::Keep,
        4..7 => Rule::AsCreated,
        7..11 => Rule::Set(span(parameter)),
        11..13 => Rule::Half,
        13 => Rule::Never,
        14 => Rule::Set(Duration::from_secs(3)),
        _ => Rule::Panic,
    }
}

fn while_loading(config: &Config, traits: Traits, d: u8) -> WhileLoading {
    match d % 16 {
        0..8 => WhileLoading::Nothing,
        8..10 => WhileLoading::Step(step(d / 16 % config.keys, d, d >> 4)),
        10 => WhileLoading::InsertSame(Traits { weight: 1, ..traits }, Term::Policy),
        11 => WhileLoading::InsertSame(traits, Term::For(span(d >> 4))),
        12 => WhileLoading::RemoveSame,
        13 => WhileLoading::InvalidateAll,
        14 => WhileLoading::Panic,
        _ => WhileLoading::LoadOther(d / 16 % config.keys, traits),
    }
}

fn while_computing(config: &Config, traits: Traits, d: u8, a: u8) -> WhileComputing {
    match d % 16 {
        0..8 => WhileComputing::Nothing,
        8..11 => WhileComputing::Step(step(a % config.keys, a, a >> 4)),
        11 => WhileComputing::ReadSame,
        12..14 => WhileComputing::InsertOther(a % config.keys, traits),
        14 => WhileComputing::InvalidateAll,
        _ => WhileComputing::Panic,
    }
}
