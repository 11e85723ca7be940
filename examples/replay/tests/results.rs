//! The replay example, run as its users run it: hit ratios against those worked out by hand.

use crate::program::{Folder, LOOKUPS, replay, run_with_input, trace};

#[test]
fn a_small_trace_has_the_hit_ratio_worked_out_by_hand() {
    let hits = LOOKUPS.iter().filter(|(_, finds)| *finds == "hit").count();
    assert_eq!((hits, LOOKUPS.len()), (5, 11));
    for arguments in [&[][..], &["--expire", "create"], &["--expire", "write", "--obey-ttl"]] {
        let run = replay(arguments, trace().as_bytes());
        assert_eq!(run.row("requests"), "11");
        assert_eq!(run.row("hit ratio"), "45.45 %", "5 of 11: {arguments:?}");
        assert_eq!(run.row("byte hit ratio"), "53.85 %", "70 of 130: {arguments:?}");
        assert_eq!(run.row("expired"), "5", "a three times, z twice: {arguments:?}");
        assert_eq!(run.row("evicted for size"), "0");
        assert!(run.out.contains("Of the 6 misses\n   50.00 %  were the first"), "{}", run.out);
        assert!(run.out.contains("\n   50.00 %  came after the lifetime was over"), "{}", run.out);
        assert!(
            run.out.contains("would be 45.45 %, and 72.73 % if nothing expired"),
            "{}",
            run.out
        );
    }
}

#[test]
fn options_for_lifetimes_do_what_they_say() {
    for (arguments, expected) in [
        (&["--expire", "access"][..], "63.64 %"), // a hit of `a` gives it 1 s more: 7 of 11
        (&["--ttl", "3s"], "27.27 %"),            // `b` is gone after 4 s: 3 of 11
        (&["--ignore-ttl"], "72.73 %"),           // only the first look-ups miss: 8 of 11
        (&["--ignore-ttl", "--ttl", "2h"], "72.73 %"),
        (&["--ignore-ttl", "--tti", "500ms"], "36.36 %"), // thrice `a`, and `z`: 4 of 11
        (&["--ignore-ttl", "--ttl", "0s"], "0.00 %"),
        (&["--capacity", "0"], "0.00 %"),
        (&["--requests", "3"], "66.67 %"),
    ] {
        let run = replay(arguments, trace().as_bytes());
        assert_eq!(run.row("hit ratio"), expected, "{arguments:?}");
    }
}

#[test]
fn threads_share_out_the_requests() {
    let round: String = (1..=300).map(|i| format!("key{i},,{i}\n")).collect();
    let run = replay(&["--threads", "3"], round.repeat(2).as_bytes());
    for (row, value) in [
        ("requests", "600"),
        ("hit ratio", "50.00 %"),
        ("byte hit ratio", "50.00 %"),
        ("resident entries", "300"),
    ] {
        assert_eq!(run.row(row), value, "{row}");
    }
}

#[test]
fn jitter_shortens_lifetimes_only() {
    let trace = "a,1000,,0\na,1000,,499\nb,1000,,499\nb,1000,,1499\n";
    let run = replay(&["--jitter", "50%"], trace.as_bytes());
    assert_eq!(run.row("hit ratio"), "25.00 %");
}

#[test]
fn a_rate_gives_a_trace_a_time_of_its_own() {
    let trace = b"a\na\na\na\n"; // at 0, 1, 2 and 3 s
    let run = replay(&["--rate", "1", "--ttl", "2s"], trace);
    assert_eq!(run.row("hit ratio"), "50.00 %");
    assert!(run.out.contains("3 s of trace time"), "{}", run.out);
    let run = replay(&["--ttl", "2h"], trace);
    assert_eq!(run.row("hit ratio"), "75.00 %");
    assert!(run.out.contains("lifetimes ran by the wall clock"), "{}", run.out);
}

#[test]
fn a_file_may_be_compressed_and_comes_with_a_chart() {
    let folder = Folder::new("chart");
    let packed = folder.file("trace.zst", &zstd::encode_all(trace().as_bytes(), 3).unwrap());
    let svg = folder.file("chart.svg", b"");
    let run = run_with_input(&[&packed, "--svg", &svg, "--max-weight", "1.5KiB"], b"");
    assert_eq!(run.code, Some(0), "{}", run.error);
    assert_eq!(run.row("hit ratio"), "45.45 %");
    assert!(run.out.contains("cache of 1.50 KiB of weight"), "{}", run.out);
    assert!(run.out.contains(&format!("Chart: {svg}")), "{}", run.out);
    let chart = std::fs::read_to_string(&svg).unwrap();
    assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"));
    for text in ["hit ratio (%)", "resident entries", "trace time (seconds)", "trace trace.zst"] {
        assert!(chart.contains(text), "no `{text}` in the chart");
    }
}

#[test]
fn the_built_in_workload_depends_on_its_seed_only() {
    let bound = |arguments: &[&str]| {
        let run = run_with_input(&[&["--no-svg", "--requests", "20k"], arguments].concat(), b"");
        assert_eq!(run.code, Some(0), "{}", run.error);
        assert_eq!(run.row("requests"), "20,000");
        let line = run.out.lines().find(|line| line.starts_with("With room")).unwrap().to_owned();
        (run, line)
    };
    let (_, first) = bound(&[]);
    assert_eq!(bound(&[]).1, first);
    assert_ne!(bound(&["--seed", "7"]).1, first);
    let (run, _) = bound(&["--threads", "3", "--cluster", "cluster37", "--capacity", "500"]);
    assert!(run.row("evicted for size") != "0" && run.out.contains("3 threads"), "{}", run.out);
    assert!(run.error.is_empty(), "{}", run.error);
}

/// Each cell is the miss ratio of a run of its own with that capacity and that lifetime.
#[test]
fn capacities_and_lifetimes_are_compared() {
    let folder = Folder::new("grid");
    let file = folder.file("trace", trace().as_bytes());
    let chart = folder.0.join("chart.svg");
    let svg = ["--svg", chart.to_str().unwrap()];
    let lists = ["--capacities", "1,10", "--lifetimes", "500ms,2h"];
    let run = run_with_input(&[&[file.as_str()][..], &svg, &lists].concat(), b"");
    assert_eq!(run.code, Some(0), "{}", run.error);
    let rows: Vec<Vec<String>> = run
        .out
        .lines()
        .filter(|line| line.contains('%'))
        .map(|line| line.split(['│', '┆']).map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert_eq!(rows.len(), 2, "{}", run.out);
    for (row, lifetime) in rows.iter().zip(["500ms", "2h"]) {
        for (cell, capacity) in row[2..4].iter().zip(["1", "10"]) {
            let alone = ["--ignore-ttl", "--ttl", lifetime, "--capacity", capacity];
            let alone = replay(&alone, trace().as_bytes());
            let hits: f64 = alone.row("hit ratio").trim_end_matches(" %").parse().unwrap();
            let misses: f64 = cell.trim_end_matches(" %").parse().unwrap();
            assert!((hits + misses - 100.0).abs() < 0.02, "{cell} with {lifetime}, {capacity}");
        }
    }
    let svg = std::fs::read_to_string(chart).unwrap();
    assert!(svg.contains("miss ratio") && svg.contains("</svg>"));
}

#[test]
fn standard_input_cannot_be_compared() {
    let run = run_with_input(&["-", "--no-svg", "--capacities", "1,10"], trace().as_bytes());
    assert_eq!(run.code, Some(1));
    assert!(run.error.contains("standard input can be read once"), "{}", run.error);
}
