//! Quantities as people write and read them: `64MiB`, `10k`, `1.5h`, `10%`; `12.3 ms`, `1,234,567`.

use std::time::Duration;

/// `10000`, `10_000`, `10k`, `2.5M`, `1G`: powers of a thousand.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let units = [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9)];
    whole(quantity(text, &units)?)
}

/// A [count](parse_count) of at least one.
pub fn parse_positive_count(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        0 => Err("must be at least 1".to_owned()),
        count => Ok(count),
    }
}

/// `4096`, `64KiB`, `64MiB`, `1.5GB`: powers of 1024 with an `i`, of a thousand without.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("", 1.0),
        ("b", 1.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("tb", 1e12),
        ("kib", 1024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
        ("tib", 1_099_511_627_776.0),
    ];
    whole(quantity(text, &units)?)
}

/// `500us`, `250ms`, `30s`, `5m`, `1.5h`, `7d`; a bare number counts seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [
        ("", 1.0),
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("min", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
        ("w", 604_800.0),
    ];
    let seconds = quantity(text, &units)?;
    let century = 36_525.0 * 86_400.0;
    if seconds > century {
        return Err("longer than a hundred years".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A [duration](parse_duration) of at least a nanosecond.
pub fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

/// `0.1` or `10%`, from nothing to the whole.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = quantity(text, &[("", 1.0), ("%", 0.01)])?;
    if share <= 1.0 { Ok(share) } else { Err("a share is at most 1, or 100%".to_owned()) }
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let text = text.trim();
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let (number, unit) = text.split_at(text.find(|c| !digits(c)).unwrap_or(text.len()));
    let unit = unit.trim();
    let Some(&(_, factor)) = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)) else {
        let known: Vec<_> = units.iter().map(|(name, _)| *name).filter(|n| !n.is_empty()).collect();
        return Err(format!("`{unit}` is not one of the units {}", known.join(", ")));
    };
    let number: f64 =
        number.replace('_', "").parse().map_err(|_| format!("`{text}` begins with no number"))?;
    Ok(number * factor)
}

/// A large number with a unit may be a fraction, as 1.3 MiB are; a small one is a mistake.
fn whole(quantity: f64) -> Result<u64, String> {
    if quantity >= u64::MAX as f64 {
        return Err("more than 64 bits hold".to_owned());
    }
    if (quantity - quantity.round()).abs() > quantity / 1000.0 {
        return Err(format!("{quantity} is not a whole number"));
    }
    Ok(quantity.round() as u64)
}

/// `1,234,567`
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 entry`, `1,234 entries`
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { more })
}

/// `71.32 %`; nothing of nothing is `–`.
pub fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2} %", 100.0 * part / whole) } else { "–".to_owned() }
}

/// `312 ns`, `41.5 µs`, `1.07 s`, `31.7 min`: three digits are enough.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let scales = [
        (86_400.0 * 2.0, 86_400.0, "d"),
        (3600.0 * 2.0, 3600.0, "h"),
        (120.0, 60.0, "min"),
        (1.0, 1.0, "s"),
        (1e-3, 1e-3, "ms"),
        (1e-6, 1e-6, "µs"),
    ];
    match scales.iter().find(|(least, ..)| seconds >= *least) {
        Some((_, unit, name)) => format!("{} {name}", three_digits(seconds / unit)),
        None => format!("{} ns", duration.as_nanos()),
    }
}

/// `64 MiB`, `1.5 KiB`, `900 B`
pub fn bytes(bytes: u64) -> String {
    let names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut scale = 0;
    while value >= 1024.0 && scale + 1 < names.len() {
        value /= 1024.0;
        scale += 1;
    }
    format!("{} {}", three_digits(value), names[scale])
}

/// `1.23`, `12.3`, `123`, `1234`; whole numbers have no fraction.
pub fn three_digits(value: f64) -> String {
    if value.fract() == 0.0 || value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
