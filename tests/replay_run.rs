//! The replay example, run as its users run it: exit codes, error texts, and hit ratios against those worked
//! out by hand.
#![cfg(not(cortado_loom))]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The example, which `cargo test` builds beside this test unless it is told to run this test only.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let built = this.parent().and_then(Path::parent).unwrap();
    let path = built.join("examples").join(format!("replay{}", std::env::consts::EXE_SUFFIX));
    let age = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/replay");
    let sources = std::fs::read_dir(sources).unwrap().map(|file| age(&file.unwrap().path()));
    let newest = sources.map(Result::unwrap).max().unwrap();
    let current = age(&path).is_ok_and(|built| built >= newest);
    assert!(current, "{} is missing or stale: `cargo build --example replay`", path.display());
    path
}

struct Run {
    code: Option<i32>,
    out: String,
    error: String,
}

fn run_with_input(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(program())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

/// Replays `input` from standard input, which must succeed, without a chart.
fn replay(arguments: &[&str], input: &[u8]) -> Run {
    let run = run_with_input(&[&["-", "--no-svg"], arguments].concat(), input);
    assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.error);
    run
}

impl Run {
    /// What the table says of `name`.
    fn row(&self, name: &str) -> &str {
        let cells = self.out.lines().map(|line| line.trim_matches('│').split('┆').map(str::trim));
        let value = cells
            .into_iter()
            .find_map(|mut cells| if cells.next() == Some(name) { cells.next() } else { None });
        value.unwrap_or_else(|| panic!("no row `{name}` in {}", self.out))
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("cortado-replay-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Eleven look-ups of three keys, and what they find if each lifetime runs from the insertion.
const LOOKUPS: [(&str, &str); 11] = [
    ("a,1000,10,0", "first"),
    ("a,1000,10,500", "hit"),
    ("a,1000,10,999", "hit"),
    ("a,1000,10,1000", "expired, at its deadline"),
    ("b,,20,1000", "first, lives for ever"),
    ("a,1000,10,1999", "hit"),
    ("a,1000,10,2000", "expired, at its deadline"),
    ("b,,20,5000", "hit"),
    ("z,0,5,5000", "first, is not stored"),
    ("z,0,5,5001", "expired, not being stored"),
    ("b,,20,100000", "hit"),
];

fn trace() -> String {
    let lines = LOOKUPS.map(|(line, _)| line);
    format!("# key,ttl_ms,weight,timestamp_ms\n{}\n", lines.join("\n"))
}

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
        (&["--expire", "access"][..], "63.64 %"), // each hit of `a` gives it a second more: 7 of 11
        (&["--ttl", "3s"], "27.27 %"),            // `b` is gone after 4 s: 3 of 11
        (&["--ignore-ttl"], "72.73 %"),           // only the first look-ups miss: 8 of 11
        (&["--ignore-ttl", "--ttl", "2h"], "72.73 %"),
        (&["--ignore-ttl", "--tti", "500ms"], "36.36 %"), // `a` at 999, 1000, 2000 and `z`: 4 of 11
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

#[test]
fn bad_input_is_told_with_file_place_and_reason() {
    let folder = Folder::new("bad");
    let text = folder.file("bad.csv", b"a\nb,10\nc,ten\n");
    let mut bytes = b"TRC1\x01\0\0\0\x02\0\0\0\0\0\0\0".to_vec();
    bytes.extend([1; 12 + 5]);
    let cut = folder.file("cut.trc", &bytes);
    let empty = folder.file("empty.csv", b"# nothing\n\n");
    let none = folder.0.join("none.csv").to_str().unwrap().to_owned();
    let here = folder.0.to_str().unwrap().to_owned();
    for (path, expected) in [
        (&text, format!("error: {text}:3: ttl_ms is `ten`, not a whole number\n")),
        (
            &cut,
            format!(
                "error: {cut}: record 2 (byte 28): the file ends inside the record, after 5 of 12 bytes\n"
            ),
        ),
        (&empty, format!("error: {empty}: no requests\n")),
        (&here, format!("error: {here} is a directory, not a trace\n")),
    ] {
        let run = run_with_input(&[path, "--no-svg"], b"");
        assert_eq!((run.code, run.error), (Some(1), expected));
        assert_eq!(run.out, "");
    }
    let run = run_with_input(&[&none], b"");
    assert_eq!(run.code, Some(1));
    assert!(run.error.starts_with(&format!("error: cannot open {none}: ")), "{}", run.error);
    let run = run_with_input(&["-", "--no-svg"], b"a\n,\n");
    let expected = "error: standard input:2: the key is empty\n".to_owned();
    assert_eq!((run.code, run.error), (Some(1), expected));
}

#[test]
fn a_chart_that_cannot_be_written_costs_the_chart_only() {
    let folder = Folder::new("nowhere");
    let svg = folder.0.join("no/such/folder.svg").to_str().unwrap().to_owned();
    let run = run_with_input(&["-", "--svg", &svg], trace().as_bytes());
    assert_eq!(run.code, Some(1));
    assert_eq!(run.row("hit ratio"), "45.45 %");
    assert!(run.error.starts_with(&format!("error: cannot write {svg}: ")), "{}", run.error);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (arguments, expected) in [
        (&["-", "--capacity", "1", "--max-weight", "1"][..], "cannot be used with"),
        (&["-", "--cluster", "cluster4"], "cannot be used with"),
        (&["--rate", "5"], "required arguments"),
        (&["--cluster", "cluster99"], "possible values"),
        (&["--ttl", "5x"], "`x` is not one of the units"),
        (&["--ttl", "s"], "begins with no number"),
        (&["--ttl", "200000000w"], "longer than a hundred years"),
        (&["--capacity", "99999999999999999999"], "more than 64 bits hold"),
        (&["--jitter", "120%"], "a share is at most 1"),
        (&["--threads", "0"], "not in 1..=256"),
    ] {
        let run = run_with_input(arguments, b"");
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.error);
        assert!(run.error.contains(expected), "{arguments:?}: {}", run.error);
    }
}
