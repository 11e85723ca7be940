//! What a replay found, as a table and in words.

use crate::options::{Expire, Options};
use crate::session::Summary;
use crate::source::Source;
use crate::units::{bytes, counted, duration, percent, thousands, three_digits};
use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use std::time::Duration;

/// The whole report.
pub fn render(options: &Options, source: &Source, summary: &Summary) -> String {
    let title = &source.title;
    format!(
        "{title}\n{}\n\n{}\n\nWhat this means\n{}",
        setup(options, summary),
        table(options, summary),
        meaning(options, source, summary)
    )
}

fn setup(options: &Options, summary: &Summary) -> String {
    let bound = match options.max_weight {
        Some(weight) => format!("{} of weight", bytes(weight)),
        None => counted(summary.bound, "entry", "entries"),
    };
    let mut parts = vec![format!("cache of {bound}")];
    if summary.counts.lives == 0 {
        parts.push("no lifetimes".to_owned());
    } else {
        parts.push(match options.expire {
            Expire::Create => "lifetimes run from creation".to_owned(),
            Expire::Write => "lifetimes run from the last write".to_owned(),
            Expire::Access => "lifetimes run from the last access".to_owned(),
        });
    }
    if let Some(tti) = options.tti {
        parts.push(format!("idle for {} at most", duration(tti)));
    }
    if options.jitter > 0.0 {
        parts.push(format!("jitter {} %", three_digits(options.jitter * 100.0)));
    }
    parts.push(counted(options.threads.into(), "thread", "threads"));
    parts.join(" · ")
}

fn table(options: &Options, summary: &Summary) -> Table {
    let Summary { counts, causes, removals, peak, calls, .. } = summary;
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut row = |name: &str, value: String, note: String| {
        rows.push([name.to_owned(), value, note]);
    };
    let about = if summary.sampled() { "about " } else { "" };
    let time = if summary.timed { "trace time" } else { "wall-clock time" };
    let updates = match counts.updates {
        0 => String::new(),
        updates => format!("{}, ", counted(updates, "is an update", "are updates")),
    };
    let note = format!(
        "{updates}{about}{}, {} of {time}",
        counted(causes.keys as u64, "key", "keys"),
        duration(summary.span)
    );
    row("requests", thousands(counts.requests), note);
    let lookups = counted(counts.lookups, "look-up", "look-ups");
    let of = format!("{} of {lookups}", thousands(counts.hits));
    row("hit ratio", percent(counts.hits as f64, counts.lookups as f64), of);
    if counts.weighed > 0 {
        let (hit, all) = (counts.weight_hit, counts.weight_looked_up);
        let note = format!("{} of {}", bytes(hit), bytes(all));
        row("byte hit ratio", percent(hit as f64, all as f64), note);
    }
    for (name, removed, why) in [
        ("expired", removals.expired, "their lifetime was over"),
        ("evicted for size", removals.size, "they had to make room"),
        ("replaced", removals.replaced, "an update came"),
    ] {
        let note = if removed == 0 { String::new() } else { why.to_owned() };
        row(name, thousands(removed), note);
    }
    if removals.lateness.count() > 0 {
        let late = &removals.lateness;
        let note = format!(
            "p99 {}, max {}, until removal; never served late",
            duration(late.quantile(0.99)),
            duration(late.max())
        );
        row("expiry lateness, p50", duration(late.quantile(0.5)), note);
    }
    let mut note = format!("at the peak; {} at the end", thousands(summary.resident));
    if options.max_weight.is_some() {
        note = format!("weighing {} {note}", bytes(peak.weight));
    }
    row("resident entries", thousands(peak.resident), note);
    if peak.resident > 0 {
        let each = (peak.held as f64 / peak.resident as f64).round() as u64;
        let note = format!("{} at the peak: keys and bookkeeping, no payload", bytes(peak.held));
        row("memory per entry", format!("{each} B"), note);
    }
    let rate = counts.requests as f64 / summary.busy.as_secs_f64().max(1e-9);
    let note = format!("requests a second, {} in the cache", duration(summary.busy));
    row("throughput", thousands(rate as u64), note);
    let nanos = |n: u64| duration(Duration::from_nanos(n));
    let quantile = |q: f64| nanos(calls.nanos.value_at_quantile(q));
    let mut note = format!("p50 {}, p99.9 {}", quantile(0.5), quantile(0.999));
    if !calls.slowest_pass.is_zero() {
        note += &format!("; maintenance pass {}", duration(calls.slowest_pass));
    }
    row("slowest call", nanos(calls.nanos.max()), note);

    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).apply_modifier(UTF8_ROUND_CORNERS);
    table.add_rows(rows);
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn meaning(options: &Options, source: &Source, summary: &Summary) -> String {
    let mut lines = Vec::new();
    let Summary { counts, causes, .. } = summary;
    let misses = causes.misses();
    if misses > 0.0 {
        let sample = if summary.sampled() { ", as a sample of the keys tells" } else { "" };
        let missed = counted(counts.lookups - counts.hits, "miss", "misses");
        lines.push(format!("Of the {missed}{sample}"));
        // Without an eviction, only threads that overtake each other can miss what should be there.
        let crowded = match summary.removals.size {
            0 => "came while another thread was about to insert, or out of order",
            _ => "came after an eviction: a larger cache would serve them",
        };
        let shares = [
            (causes.first_time, "were the first look-up of their key: no cache avoids these"),
            (causes.expired, "came after the lifetime was over: a longer one would serve them"),
            (causes.capacity, crowded),
        ];
        for (part, why) in shares.into_iter().filter(|(part, _)| *part > 0.0) {
            lines.push(format!("  {:>8}  {why}", percent(part, misses)));
        }
    }
    let ratio = |hits: f64| percent(hits, causes.lookups);
    if counts.lives > 0 || options.tti.is_some() {
        lines.push(format!(
            "With room for everything the hit ratio would be {}, and {} if nothing expired either.",
            ratio(causes.ideal_hits),
            ratio(causes.repeats)
        ));
    } else {
        lines.push(format!(
            "With room for everything the hit ratio would be {}.",
            ratio(causes.repeats)
        ));
    }
    lines.extend(advice(options, summary));
    if let Some(cluster) = source.builtin {
        let hits = 100.0 * (1.0 - cluster.production_miss_ratio);
        lines.push(format!(
            "({} had {hits:.1} % in production; the workload has its outlines only.)",
            cluster.name
        ));
    }
    if !summary.timed && (counts.lives > 0 || options.tti.is_some()) {
        lines.push(
            "The trace has no timestamps, so lifetimes ran by the wall clock; --rate gives it a time of its own."
                .to_owned(),
        );
    }
    if options.max_weight.is_some() && counts.weighed == 0 {
        lines.push("The trace has no weights: each entry weighed 1.".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Which setting to turn.
fn advice(options: &Options, summary: &Summary) -> Option<String> {
    let Summary { removals, peak, causes, .. } = summary;
    let fill = if options.max_weight.is_some() { peak.weight } else { peak.resident };
    if removals.size == 0 {
        let share = percent(fill as f64, summary.bound as f64);
        return Some(format!(
            "Nothing was evicted: {share} of the capacity was the most that was in use."
        ));
    }
    // What each could add to the hit ratio: room for everything, and then no lifetimes.
    let lookups = causes.lookups.max(1.0);
    let room = (causes.ideal_hits - (causes.lookups - causes.misses())).max(0.0) / lookups;
    let lives = (causes.repeats - causes.ideal_hits).max(0.0) / lookups;
    Some(match (room < 0.02, lives < 0.02) {
        (true, true) => "Neither a larger cache nor longer lifetimes would change much.".to_owned(),
        (true, false) => {
            "Lifetimes are what limits: a larger cache would change little.".to_owned()
        }
        (false, true) => match summary.counts.lives {
            0 => "Capacity is what limits.".to_owned(),
            _ => "Capacity is what limits: longer lifetimes would change little.".to_owned(),
        },
        (false, false) => format!(
            "Both matter: room can add up to {:.0} points to the hit ratio, lifetimes {:.0} on top.",
            100.0 * room,
            100.0 * lives
        ),
    })
}

impl Summary {
    /// Whether the causes of misses are estimates from a sample of the keys.
    fn sampled(&self) -> bool {
        self.causes.lookups != self.counts.lookups as f64
    }
}
