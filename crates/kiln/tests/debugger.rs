//! Scripted sessions of the debugger: this test program is also the program that is debugged.

use std::process::{Command, Output};

include!("debugged/softmax.rs");
include!("debugged/threads.rs");

/// Whether this process is the one that is debugged.
fn is_debugged() -> bool {
    std::env::var_os("KILN_DEBUG").is_some()
}

/// Runs the test of this name as the program, with these commands.
fn debug(device: &str, test: &str, commands: &str) -> Output {
    let file = std::env::temp_dir().join(format!("kiln-debugger-{test}-{device}-{}", std::process::id()));
    std::fs::write(&file, commands).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("KILN_CACHE_DIR", "");
    command.env("KILN_DEBUG", device).env("KILN_DEBUG_COMMANDS", &file);
    let output = command.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    output
}

/// What the session printed, from the first prompt on, to what the test harness prints at the end.
fn session_on(device: &str, test: &str, commands: &str) -> String {
    let output = debug(device, test, commands);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let start = text.find("(kiln) ").unwrap_or_else(|| panic!("no session: {text}"));
    let end = text.find(&format!("\ntest {test}")).or(text.find("\ntest result")).unwrap_or(text.len());
    text[start..end].replace("crates/kiln/tests/debugged/softmax.rs", "src/main.rs")
}

fn session(test: &str, commands: &[&str]) -> String {
    session_on("interp", test, &(commands.join("\n") + "\n"))
}

/// What a command printed, by the number of its like.
fn answer<'a>(session: &'a str, command: &str, number: usize) -> &'a str {
    let parts = session.split("(kiln) ").filter_map(|part| part.split_once('\n'));
    let of_command: Vec<&str> =
        parts.filter(|(said, _)| *said == command).map(|(_, answer)| answer).collect();
    let found = of_command.get(number).unwrap_or_else(|| panic!("`{command}` {number}: {session}"));
    found.trim_end()
}

/// The numbers between the brackets of an answer.
fn numbers(answer: &str) -> Vec<f64> {
    let value = answer.split_once(" = ").map_or(answer, |(_, value)| value);
    let inner = value
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .unwrap_or_else(|| panic!("{answer}"))
        .0;
    inner.split(',').map(|number| number.trim().parse().unwrap()).collect()
}

/// The line of a text in one of the kernels' files, from 1.
fn line(file: &str, text: &str) -> usize {
    file.lines().position(|line| line.trim() == text).unwrap_or_else(|| panic!("no line `{text}`")) + 1
}

const SOFTMAX: &str = include_str!("debugged/softmax.rs");
const THREADS: &str = include_str!("debugged/threads.rs");

fn rows() -> Vec<f32> {
    (0..12).map(|i| (i * 7 % 5) as f32 * 0.5).collect()
}

fn run_softmax() {
    let device = Device::open("cpu").unwrap();
    let x = device.tensor(&rows(), [3, 4]).unwrap();
    let mut y = device.zeros([3, 4]).unwrap();
    softmax(&x, &mut y, 4).launch(&device).unwrap();
    println!("{:.3}", y.slice(0, 2..3).unwrap());
}

#[test]
fn tiles_have_the_values_that_the_kernel_computes() {
    if is_debugged() {
        return run_softmax();
    }
    let commands = [
        "break softmax.rs:7 block 1",
        "info break",
        "run",
        "print v",
        "print block",
        "p row",
        "print x[1]",
        "step",
        "p e",
        "p e[1..3]",
        "p e[2]",
        "n",
        "p total",
        "info locals",
        "info args",
        "block",
        "finish",
        "p y[1]",
        "p y[2, 0]",
        "block 2",
        "step",
        "p row",
        "block 0",
        "info break",
        "delete 1",
        "delete 1",
        "c",
    ];
    let text = session("tiles_have_the_values_that_the_kernel_computes", &commands);
    // In f64, from the same numbers.
    let v: Vec<f64> = rows()[4..8].iter().map(|&x| x.into()).collect();
    let most = v.iter().copied().fold(f64::MIN, f64::max);
    let e: Vec<f64> = v.iter().map(|x| (x - most).exp()).collect();
    let total: f64 = e.iter().sum();
    let close = |found: &[f64], want: &[f64]| {
        assert_eq!(found.len(), want.len(), "{text}");
        found.iter().zip(want).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} and {b}: {text}"));
    };
    assert_eq!(answer(&text, "info break", 0), "1: softmax.rs:7, block 1, reached 0 times");
    let stopped = answer(&text, "run", 0);
    assert!(stopped.starts_with("breakpoint 1: `softmax` at src/main.rs:7, block [1, 0, 0]\n7 "), "{text}");
    assert!(stopped.ends_with("let e = (v - v.reduce_max()).exp();"), "{text}");
    close(&numbers(answer(&text, "print v", 0)), &v);
    assert_eq!(answer(&text, "print block", 0), "block = 4 usize");
    assert_eq!(answer(&text, "p row", 0), "row = 1 i64");
    close(&numbers(answer(&text, "print x[1]", 0)), &v);
    assert!(answer(&text, "step", 0).starts_with("8  "), "{text}");
    close(&numbers(answer(&text, "p e", 0)), &e);
    assert!(answer(&text, "p e", 0).ends_with("] f32[4]"), "{text}");
    close(&numbers(answer(&text, "p e[1..3]", 0)), &e[1..3]);
    let scalar = |answer: &str| answer.split_whitespace().nth_back(1).unwrap().parse::<f64>().unwrap();
    close(&[scalar(answer(&text, "p e[2]", 0)), scalar(answer(&text, "p total", 0))], &[e[2], total]);
    let names: Vec<&str> =
        answer(&text, "info locals", 0).lines().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["block", "row", "v", "e", "total"], "{text}");
    assert!(answer(&text, "info args", 0).starts_with("x = f32[3, 4]\n[["), "{text}");
    assert_eq!(answer(&text, "block", 0), "block [1, 0, 0] of a grid of [3, 1, 1]");
    assert_eq!(answer(&text, "finish", 0), "end of block [1, 0, 0] of `softmax`");
    let y: Vec<f64> = e.iter().map(|e| e / total).collect();
    close(&numbers(answer(&text, "p y[1]", 0)), &y);
    assert_eq!(answer(&text, "p y[2, 0]", 0), "y[2, 0] = 0.0 f32", "the third row comes later");
    assert!(answer(&text, "block 2", 0).starts_with("`softmax` at src/main.rs:5, block [2, 0, 0]"), "{text}");
    assert_eq!(answer(&text, "p row", 1), "row = 2 i64");
    assert_eq!(answer(&text, "block 0", 0), "block 0 has ended: blocks run one after the other");
    assert_eq!(answer(&text, "info break", 1), "1: softmax.rs:7, block 1, reached 1 time");
    assert_eq!(answer(&text, "delete 1", 1), "there is no breakpoint 1; `info break` lists them");
    assert!(answer(&text, "c", 0).starts_with("[["), "the program goes on: {text}");
}

const NUMBERS: [i64; 6] = [6, 1, 7, 0, 3, 4];

/// The numbers that a thread goes through.
fn path(mut n: i64) -> Vec<i64> {
    let mut path = vec![n];
    while n > 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        path.push(n);
    }
    path
}

#[test]
fn threads_are_stepped_one_by_one() {
    if is_debugged() {
        let device = Device::default().unwrap();
        let x = device.tensor(&NUMBERS, [6]).unwrap();
        let mut y = device.zeros([6]).unwrap();
        collatz(&x, &mut y).grid([1]).block([6]).launch(&device).unwrap();
        println!("{:?}", y.to_vec().unwrap());
        return;
    }
    let test = "threads_are_stepped_one_by_one";
    let steps = line(THREADS, "steps += 1;");
    let up = line(THREADS, "n = 3 * n + 1;");
    let mut commands =
        vec!["break collatz".to_owned(), "run".to_owned(), format!("break {up}"), "c".to_owned()];
    commands.extend(["info threads", "p n threads", "thread", "thread 4", "delete"].map(str::to_owned));
    commands.push(format!("break {steps} thread 4"));
    // Each round of thread 4 alone.
    for _ in 1..path(3).len() {
        commands.extend(["c", "p n", "p steps"].map(str::to_owned));
    }
    commands.extend(
        ["where", "delete", "thread 0,0,0", "finish", "p steps threads", "p i", "p y", "c"]
            .map(str::to_owned),
    );
    for device in ["interp", "interp:fast", "interp:3"] {
        let text = session_on(device, test, &(commands.join("\n") + "\n"));
        assert!(answer(&text, "run", 0).contains("breakpoint 1: `collatz` at "), "{text}");
        if device != "interp:3" {
            // In lockstep, those that are odd and more than 1.
            assert_eq!(answer(&text, "info threads", 0), "of 6 threads 2, 4 run this line");
            assert_eq!(answer(&text, "p n threads", 0), "n = [7, 3] i64, in threads 2, 4");
            assert_eq!(answer(&text, "thread", 0), "thread [2, 0, 0]", "one of those is selected");
        }
        for (round, n) in path(3).iter().enumerate().skip(1) {
            assert_eq!(answer(&text, "p n", round - 1), format!("n = {n} i64"), "{text}");
            assert_eq!(answer(&text, "p steps", round - 1), format!("steps = {} i64", round - 1), "{text}");
        }
        assert!(
            answer(&text, "where", 0).contains("\n  in the loop at crates/kiln/tests/debugged/threads.rs:")
        );
        let want: Vec<i64> = NUMBERS.iter().map(|&n| path(n).len() as i64 - 1).collect();
        assert_eq!(
            numbers(answer(&text, "p steps threads", 0)),
            want.iter().map(|&n| n as f64).collect::<Vec<_>>()
        );
        assert!(answer(&text, "p steps threads", 0).ends_with(" i64, in threads 0..6"), "{text}");
        assert_eq!(answer(&text, "p i", 0), "i = 0 i64");
        assert_eq!(numbers(answer(&text, "p y", 0)), want.iter().map(|&n| n as f64).collect::<Vec<_>>());
        assert!(text.ends_with(&format!("{want:?}")), "{text}");
    }
}

#[test]
fn names_are_those_in_scope() {
    if is_debugged() {
        let device = Device::default().unwrap();
        let mut y = device.zeros([2, 8]).unwrap();
        hidden(&mut y).grid([1, 2]).block([8, 1]).launch(&device).unwrap();
        return;
    }
    let after = line(THREADS, "let mut last = val(0);");
    let inner = line(THREADS, "y.set(at, v);");
    let assert = line(THREADS, "device_assert!(last < 1000);");
    let host = line(THREADS, "y.set(at, v + two);");
    let commands = [
        format!("break {inner} block 0"),
        "run".into(),
        "thread 5".into(),
        "p v".into(),
        "p s".into(),
        "p s[2..4]".into(),
        "p scale".into(),
        "p at[0]".into(),
        "p at[1]".into(),
        "p at".into(),
        format!("break {after} block 0"),
        "c".into(),
        "p v".into(),
        format!("break {assert} block 0"),
        "c".into(),
        "p last".into(),
        "p k".into(),
        "c".into(),
        "p last".into(),
        "step".into(),
        "step".into(),
        "p k".into(),
        "step".into(),
        "p last".into(),
        "p k".into(),
        format!("break {host} block 0"),
        "c".into(),
        "p two".into(),
    ];
    let text = session("names_are_those_in_scope", &commands.each_ref().map(String::as_str));
    assert_eq!(answer(&text, "p v", 0), "v = 115 i32", "{text}");
    assert_eq!(answer(&text, "p s", 0), "s = [ 0,  3,  6,  9, 12, 15, 18, 21] i32[8]");
    assert_eq!(answer(&text, "p s[2..4]", 0), "s[2..4] = [6, 9] i32[2]");
    assert!(answer(&text, "p scale", 0).starts_with("scale = 3 "));
    assert_eq!(
        (answer(&text, "p at[0]", 0), answer(&text, "p at[1]", 0)),
        ("at[0] = 0 i64", "at[1] = 5 i64"),
        "{text}"
    );
    assert!(
        answer(&text, "p at", 0)
            .starts_with("`at` is no name of a number, a tile or a tensor here; there are at[0], ")
    );
    assert_eq!(answer(&text, "p v", 1), "v = 15 i32", "the inner one has gone: {text}");
    assert_eq!((answer(&text, "p k", 0), answer(&text, "p last", 0)), ("k = 0 i64", "last = 15 i32"));
    assert_eq!(answer(&text, "p last", 1), "last = 16 i32", "{text}");
    assert_eq!(answer(&text, "p k", 1), "k = 2 i64", "{text}");
    // Nothing reads it after the loop, and yet it is there.
    assert_eq!(answer(&text, "p last", 2), "last = 17 i32", "{text}");
    assert!(answer(&text, "p k", 2).starts_with("`k` is no name"), "{text}");
    assert!(answer(&text, "p two", 0).starts_with("two = 0 "), "{text}");
}

#[test]
fn a_fault_stops_where_it_happens() {
    if is_debugged() {
        let device = Device::default().unwrap();
        let x = device.tensor(&[0.5f32; 10], [10]).unwrap();
        let mut y = device.zeros([8]).unwrap();
        outside(&x, &mut y).grid([1]).block([8]).launch(&device).unwrap();
        println!("{}", y.to_vec().unwrap_err());
        return;
    }
    let text =
        session("a_fault_stops_where_it_happens", &["run", "p twice", "p i", "where", "p x[0..2]", "c"]);
    assert!(answer(&text, "run", 0).starts_with("fault: "), "{text}");
    assert!(answer(&text, "run", 0).contains("let v = x.get(twice);"), "{text}");
    assert_eq!((answer(&text, "p twice", 0), answer(&text, "p i", 0)), ("twice = 10 i64", "i = 5 i64"));
    assert!(answer(&text, "where", 0).contains("thread [5, 0, 0]"), "{text}");
    assert_eq!(answer(&text, "p x[0..2]", 0), "x[0..2] = [0.5, 0.5] f32[2]");
    // The program has its error as without the debugger.
    assert!(answer(&text, "c", 0).contains("10") && answer(&text, "c", 0).contains("outside"), "{text}");
}

#[test]
fn wrong_commands_say_what_there_is() {
    if is_debugged() {
        return run_softmax();
    }
    let commands = [
        "fly",
        "print v",
        "block 1",
        "break 7",
        "run",
        "print w",
        "p v[9]",
        "p v[0, 1]",
        "p block[1]",
        "thread 3",
        "block 3",
        "p v threads",
        "break softmax.rs:900",
        "list 900",
        "directory /no/such",
        "help",
        "# a comment",
        "quit",
    ];
    let text = session("wrong_commands_say_what_there_is", &commands);
    for (command, said) in [
        (
            "fly",
            "there is no command `fly`; there are break, delete, run, continue, step, next, finish, print, info, where, list, block, thread, directory, quit, help",
        ),
        (
            "print v",
            "no kernel has begun yet: `run` goes on to the first breakpoint, `step` into the first kernel",
        ),
        (
            "block 1",
            "no kernel has begun yet: `run` goes on to the first breakpoint, `step` into the first kernel",
        ),
        ("print w", "`w` is no name of a number, a tile or a tensor here; there are block, row, v, x, y"),
        ("p v[9]", "9..10 is outside of 0..4, axis 0 of the value"),
        ("p v[0, 1]", "a slice of 2 parts, of a value with 1 axis"),
        ("p block[1]", "`block` is a constant of the host: it has no elements"),
        ("thread 3", "a program over tiles has no threads that can be selected"),
        ("block 3", "the grid has [3, 1, 1] blocks"),
        ("p v threads", "it is the same in all threads: leave `threads` away"),
        ("directory /no/such", "there is no folder `/no/such`"),
    ] {
        assert_eq!(answer(&text, command, 0), said, "{text}");
    }
    assert!(answer(&text, "help", 0).starts_with("break FILE:LINE"), "{text}");
    assert!(!text.contains("[["), "the program has not gone on: {text}");
}

/// The session in the book is one of the kernel in the book.
#[test]
fn the_session_in_the_book() {
    if is_debugged() {
        return run_book();
    }
    let book = include_str!("../../../book/src/debugging.md");
    assert!(book.contains(SOFTMAX), "the kernel in the book differs from tests/debugged/softmax.rs");
    let shown =
        book.split("```text\n(kiln) ").nth(1).and_then(|rest| rest.split("```").next()).expect("no session");
    let shown = format!("(kiln) {shown}");
    let commands: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("(kiln) ")).collect();
    let text = session("the_session_in_the_book", &commands);
    assert_eq!(text.trim_end(), shown.trim_end());
}

fn run_book() {
    let device = Device::default().unwrap();
    let x: Vec<f32> = (0..8192).map(|i| (i % 100) as f32 / 100.0).collect();
    let x = device.tensor(&x, [2, 4096]).unwrap();
    let mut y = device.zeros([2, 4096]).unwrap();
    softmax(&x, &mut y, 4096).launch(&device).unwrap();
    println!("{:.6}", y.slice(0, 0..1).unwrap());
}
