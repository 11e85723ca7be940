//! The replay example, given what it has to refuse: exit codes and error texts.

use crate::program::{Folder, LOOKUPS, replay, run_with_input, trace};

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
    let run = run_with_input(&[&none, "--no-svg"], b"");
    assert_eq!(run.code, Some(1));
    assert!(run.error.starts_with(&format!("error: cannot open {none}: ")), "{}", run.error);
    let run = run_with_input(&["-", "--no-svg"], b"a\n,\n");
    let expected = "error: standard input:2: the key is empty\n".to_owned();
    assert_eq!((run.code, run.error), (Some(1), expected));
}

#[test]
fn a_chart_that_cannot_be_written_is_told_before_the_run() {
    let folder = Folder::new("nowhere");
    let at = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let trace = folder.file("trace.csv", trace().as_bytes());
    std::fs::create_dir(at("folder")).unwrap();
    for (svg, expected) in [
        (at("no/such/folder.svg"), "No such file or directory"),
        (at("trace.csv/chart.svg"), "Not a directory"),
        (at("folder"), "it is a directory"),
        (at("folder/../trace.csv"), "it is the trace"),
    ] {
        let run = run_with_input(&[&trace, "--svg", &svg], b"");
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{svg}");
        let start = format!("error: cannot write the chart {svg} (--svg names another");
        assert!(run.error.starts_with(&start), "{}", run.error);
        // The words of the system are its own.
        assert!(!cfg!(target_os = "linux") || run.error.contains(expected), "{}", run.error);
    }
    assert!(std::fs::read_to_string(trace).unwrap().starts_with("# key"));
}

#[test]
fn a_run_that_fails_leaves_the_chart_as_it_was() {
    let folder = Folder::new("kept");
    let (old, new) = (folder.file("old.svg", b"<svg/>"), folder.0.join("new.svg"));
    for svg in [&old, new.to_str().unwrap()] {
        let run = run_with_input(&["-", "--svg", svg], b"a\nb\n,\n");
        assert_eq!(run.code, Some(1), "{}", run.error);
    }
    assert_eq!(std::fs::read(&old).unwrap(), b"<svg/>");
    assert!(!new.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_chart_that_fails_after_the_run_costs_the_chart_only() {
    let run = run_with_input(&["-", "--svg", "/dev/full"], trace().as_bytes());
    assert_eq!(run.code, Some(1));
    assert_eq!(run.row("hit ratio"), "45.45 %");
    assert!(run.error.starts_with("error: cannot write /dev/full: "), "{}", run.error);
}

#[test]
fn lines_without_commas_are_split_or_taken_for_keys_as_the_user_says() {
    for (delimiter, option) in [(";", ";"), ("\t", "tab"), ("\t", "\t"), ("\t", "\\t")] {
        let trace = trace().replace(',', delimiter);
        let run = run_with_input(&["-", "--no-svg"], trace.as_bytes());
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
        assert!(run.error.contains("standard input:2: the fields seem to be"), "{}", run.error);
        let run = replay(&["--delimiter", option], trace.as_bytes());
        assert_eq!(run.row("hit ratio"), "45.45 %");
        let run = replay(&["--delimiter", ","], trace.as_bytes());
        assert_eq!(run.row("hit ratio"), "0.00 %", "{LOOKUPS:?} differ");
    }
}

#[test]
fn a_rate_is_refused_if_the_trace_has_timestamps() {
    let run = run_with_input(&["-", "--no-svg", "--rate", "5"], trace().as_bytes());
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert!(run.error.contains("--rate is for traces without timestamps"), "{}", run.error);
}

#[test]
fn one_of_anything_is_singular() {
    let arguments = ["--no-svg", "--requests", "1", "--capacity", "1"];
    let run = run_with_input(&arguments, b"");
    for text in ["cache of 1 entry ·", "1 thread\n", "1 key,", "0 of 1 look-up ", "Of the 1 miss\n"]
    {
        assert!(run.out.contains(text), "no `{text}` in {}", run.out);
    }
    let updates = run_with_input(&["--no-svg", "--requests", "5"], b"");
    assert!(updates.out.contains("1 is an update, "), "{}", updates.out);
    let folder = Folder::new("one");
    let svg = folder.file("one.svg", b"");
    let run = run_with_input(&["-", "--svg", &svg], b"a\n");
    assert_eq!(run.code, Some(0), "{}", run.error);
    let chart = std::fs::read_to_string(svg).unwrap();
    assert!(chart.contains("1 request, hit ratio 0.00 %, at most 1 entry resident"), "{chart}");
}

#[test]
fn what_makes_sense_at_its_limit_is_played() {
    for (arguments, text) in [
        (&["--jitter", "0.5%"][..], "jitter 0.50 %"),
        (&["--resolution", "1ms"], "45.45 %"),
        (&["--resolution", "36500d"], "45.45 %"),
        (&["--tti", "1ns"], "0.00 %"),
        (&["--ttl", "0"], "1 thread"),
        (&["--max-weight", "0"], "cache of 0 B of weight"),
        (&["--max-weight", "1.3KiB"], "cache of 1.30 KiB"),
    ] {
        let run = replay(arguments, trace().as_bytes());
        assert!(run.out.contains(text), "{arguments:?}: {}", run.out);
    }
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
        (&["-", "--rate", "0"], "'--rate <N>': must be at least 1"),
        (&["-", "--rate", "0.5"], "0.5 is not a whole number"),
        (&["-", "--requests", "0"], "'--requests <N>': must be at least 1"),
        (&["--max-weight", "0.4"], "0.4 is not a whole number"),
        (&["--span", "0"], "'--span <TIME>': must be longer than zero"),
        (&["--tti", "0"], "'--tti <TIME>': must be longer than zero"),
        (&["--tti", "0.1ns"], "must be longer than zero"),
        (&["--resolution", "0s"], "'--resolution <TIME>': expiry_resolution: 0ns is finer"),
        (&["--resolution", "1ns"], "1ns is finer than the finest, 1ms"),
        (&["-", "--delimiter", "7"], "not `tab`, a space or one punctuation mark"),
        (&["-", "--delimiter", "#"], "not `tab`, a space or one punctuation mark"),
        (&["--jitter", "120%"], "a share is at most 1"),
        (&["--threads", "0"], "not in 1..=256"),
        (&["--capacities", "0"], "must be at least 1"),
        (&["--capacities", "1,x"], "`x` is not one of the units k, m, g"),
        (&["--capacities", ","], "begins with no number"),
        (&["--capacities", "1", "--capacity", "2"], "cannot be used with"),
        (&["--lifetimes", "0"], "must be longer than zero"),
        (&["--lifetimes", "1s,5x"], "`x` is not one of the units"),
        (&["--lifetimes", "1s", "--ttl", "2s"], "cannot be used with"),
    ] {
        let run = run_with_input(arguments, b"");
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.error);
        assert!(run.error.contains(expected), "{arguments:?}: {}", run.error);
    }
}
