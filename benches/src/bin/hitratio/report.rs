//! The tables.

use crate::options::{Mode, Options};
use crate::scores::{Case, Scores};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

fn table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Every case with the hit ratios of what was run, in percent, and of the best rival.
pub fn cases(scores: &Scores, options: &Options) -> Table {
    let caches = options.caches();
    let mut header = vec!["trace".to_owned(), "capacity".to_owned()];
    for cache in &caches {
        header.push((*cache).to_owned());
        if options.mode == Mode::Bytes {
            header.push("by bytes".to_owned());
        }
    }
    header.extend(["lost".to_owned(), "best rival".to_owned()]);
    let mut table = table(header);
    for case in &scores.cases {
        let mut row = vec![case.trace.clone(), case.capacity.to_string()];
        for cache in &caches {
            let ratios = scores.measured(case, cache).unwrap_or_default();
            row.push(format!("{:.2}", ratios.objects * 100.0));
            if options.mode == Mode::Bytes {
                row.push(format!("{:.2}", ratios.bytes * 100.0));
            }
        }
        row.push(
            scores.lost(case, caches[0]).map_or_else(String::new, |lost| format!("{lost:.2}")),
        );
        row.push(
            scores
                .best_rival(case, caches[0])
                .map_or_else(String::new, |(name, ratio)| format!("{name} {:.2}", ratio * 100.0)),
        );
        table.add_row(row);
    }
    table
}

/// Who loses how much: the mean at each size and over all, and the worst case.
pub fn summary(scores: &Scores, options: &Options) -> Table {
    let sizes = options.sizes.iter().map(|size| format!("{size} %"));
    let mut header = vec!["points lost".to_owned()];
    header.extend(sizes);
    header.extend(["mean".to_owned(), "worst".to_owned(), "in".to_owned()]);
    let mut table = table(header);
    let mut rows: Vec<(f64, Vec<String>)> =
        scores.policies().into_iter().filter_map(|policy| row(scores, options, policy)).collect();
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    table.add_rows(rows.into_iter().map(|(_, row)| row));
    table
}

/// A policy's row and its mean; none if it has no figure in some case.
fn row(scores: &Scores, options: &Options, policy: &str) -> Option<(f64, Vec<String>)> {
    let lost: Vec<(&Case, f64)> = scores
        .cases
        .iter()
        .map(|case| Some((case, scores.lost(case, policy)?)))
        .collect::<Option<_>>()?;
    let mean = |class: Option<usize>| {
        let counted =
            lost.iter().filter(|(case, _)| class.is_none_or(|class| scores.in_class(case, class)));
        let figures: Vec<f64> = counted.map(|(_, lost)| *lost).collect();
        figures.iter().sum::<f64>() / figures.len() as f64
    };
    let mut row = vec![policy.to_owned()];
    row.extend((0..options.sizes.len()).map(|class| format!("{:.2}", mean(Some(class)))));
    let (worst, most) = lost.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    row.push(format!("{:.2}", mean(None)));
    row.push(format!("{most:.2}"));
    row.push(format!("{} at {}", worst.trace, worst.capacity));
    Some((mean(None), row))
}

/// How far the replays of a case differ by their seeds, in points.
pub fn spreads(scores: &Scores, options: &Options) -> Table {
    let header = ["spread of runs", "median", "90th percentile", "largest", "in"];
    let mut table = table(header.map(str::to_owned).to_vec());
    for cache in options.caches() {
        let spread =
            |case| scores.measured(case, cache).map(|ratios| (ratios.spread * 100.0, case));
        let mut spreads: Vec<(f64, &Case)> = scores.cases.iter().filter_map(spread).collect();
        spreads.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let Some((largest, place)) = spreads.last() else { continue };
        let quantile =
            |share: usize| format!("{:.2}", spreads[(spreads.len() - 1) * share / 100].0);
        let place = format!("{} at {}", place.trace, place.capacity);
        table.add_row([
            cache.to_owned(),
            quantile(50),
            quantile(90),
            format!("{largest:.2}"),
            place,
        ]);
    }
    table
}
