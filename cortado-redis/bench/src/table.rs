//! Markdown tables.

use std::fmt::Display;

/// A table that is printed row by row: a long measurement shows what it has so far.
pub struct Table {
    columns: usize,
}

impl Table {
    /// Prints the head. The first column is of words, the others are of figures.
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        println!("| {} |", head.join(" | "));
        println!("|---|{}", "---:|".repeat(N - 1));
        Self { columns: N }
    }

    pub fn row(&self, first: &str, figures: &[&dyn Display]) {
        assert_eq!(figures.len() + 1, self.columns, "a figure for each column");
        let figures: Vec<String> = figures.iter().map(|figure| format!(" {figure} |")).collect();
        println!("| {first} |{}", figures.concat());
    }
}

/// A figure with three digits or so.
pub fn rounded(figure: f64) -> String {
    match figure {
        figure if figure >= 100.0 => format!("{figure:.0}"),
        figure if figure >= 10.0 => format!("{figure:.1}"),
        figure => format!("{figure:.2}"),
    }
}
