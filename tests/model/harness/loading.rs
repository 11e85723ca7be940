//! All the methods that load a key.

use super::case::{Kind, Loading};
use super::face::Subject;
use super::subject::{Key, Value};
use cortado::{Entry, Loaded};
use std::sync::Arc;
use std::time::Duration;

/// The errors of the two types.
const TEXT: &str = "no value";
const NUMBER: u8 = 7;

/// What a load returns, if it is a value.
pub enum Got {
    Value(Value),
    Handle(Entry<Key, Value>),
}

fn with_life(value: Value, life: Option<Duration>) -> Loaded<Value> {
    match life {
        None => Loaded::new(value),
        Some(life) => Loaded::with_ttl(value, life),
    }
}

fn some(value: Option<Value>) -> Value {
    value.expect("this loader makes a value")
}

/// The value. An error must be the loader's.
fn or_error<T, E: PartialEq>(result: Result<T, Arc<E>>, error: &E) -> Option<T> {
    result.inspect_err(|got| assert!(**got == *error, "another error")).ok()
}

/// Calls the method that makes of a loader's result what `how` says.
macro_rules! call {
    ($how:expr, $init:expr, $on:expr, [$($key:expr)?], $plain:ident $optional:ident $fallible:ident $load:ident) => {
        match ($how.kind, $how.loaded) {
            (Kind::Nothing, None) => Some($on.$plain($($key,)? || some($init()))),
            (Kind::None, None) => $on.$optional($($key,)? $init),
            (Kind::Text, None) => {
                or_error($on.$fallible($($key,)? || $init().ok_or(TEXT)), &TEXT)
            }
            (Kind::Number, None) => {
                or_error($on.$fallible($($key,)? || $init().ok_or(NUMBER)), &NUMBER)
            }
            (Kind::Nothing, Some(life)) => {
                Some($on.$load($($key,)? || with_life(some($init()), life)))
            }
            (Kind::None, Some(life)) => {
                $on.$load($($key,)? || $init().map(|value| with_life(value, life)))
            }
            (Kind::Text, Some(life)) => {
                let loader = || $init().map(|value| with_life(value, life)).ok_or(TEXT);
                or_error($on.$load($($key,)? loader), &TEXT)
            }
            (Kind::Number, Some(life)) => {
                let loader = || $init().map(|value| with_life(value, life)).ok_or(NUMBER);
                or_error($on.$load($($key,)? loader), &NUMBER)
            }
        }
    };
}

/// Loads the key. `init` is the loader; it makes a value unless `how` lets it make none.
pub fn load(
    cache: &Subject,
    key: Key,
    how: Loading,
    init: impl FnOnce() -> Option<Value>,
) -> Option<Got> {
    let value = match (how.by_entry, how.by_ref) {
        (false, false) => {
            call!(how, init, cache, [key], get_with optionally_get_with try_get_with load)
        }
        (false, true) => call!(how, init, cache, [&key],
            get_with_by_ref optionally_get_with_by_ref try_get_with_by_ref load_by_ref),
        (true, by_ref) => {
            let entry = if by_ref {
                let place = cache.entry_by_ref(&key);
                call!(how, init, place, [],
                    or_insert_with or_optionally_insert_with or_try_insert_with or_load_with)
            } else {
                let place = cache.entry(key);
                call!(how, init, place, [],
                    or_insert_with or_optionally_insert_with or_try_insert_with or_load_with)
            };
            return entry.map(Got::Handle);
        }
    };
    value.map(Got::Value)
}
