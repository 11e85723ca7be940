//! Medians and ratios.

/// What repeated readings of one thing came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Figure {
    /// The figure of these readings; of an even number of them, the median is the mean of the
    /// middle two.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(readings: &[f64]) -> Self {
        let mut sorted = readings.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self { median, low, high }
    }
}

impl From<f64> for Figure {
    fn from(reading: f64) -> Self {
        Self { median: reading, low: reading, high: reading }
    }
}

/// Three significant digits, and all before the decimal point: `0.0123`, `1.23`, `12.3`, `1234`.
pub fn short(figure: f64) -> String {
    let size = figure.abs();
    let decimals = match size {
        _ if size >= 100.0 || size == 0.0 => 0,
        _ => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    format!("{figure:.decimals$}")
}

/// A number with commas: `1,000,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let figure = |median, low, high| Figure { median, low, high };
        assert_eq!(Figure::of(&[3.0]), figure(3.0, 3.0, 3.0));
        assert_eq!(Figure::of(&[9.0, 1.0, 5.0]), figure(5.0, 1.0, 9.0));
        assert_eq!(Figure::of(&[9.0, 1.0, 5.0, 6.0]), figure(5.5, 1.0, 9.0));
        assert_eq!(Figure::of(&[100.0, 2.0, 10.0]), figure(10.0, 2.0, 100.0), "not by their text");
    }

    #[test]
    fn three_digits_are_enough() {
        for (figure, text) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (123_456.7, "123457"),
            (-1.234, "-1.23"),
        ] {
            assert_eq!(short(figure), text);
        }
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
