//! `kiln debug`: this test program is also the program that is debugged. What sessions do is tested
//! in `crates/kiln/tests/debugger.rs`.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Tensor};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

/// Runs `kiln debug` with commands and the test of this name as the program.
fn debug(commands: &str, test: &str, input: &str) -> Output {
    let file = std::env::temp_dir().join(format!("kiln-cli-debug-{test}-{}", std::process::id()));
    std::fs::write(&file, commands).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(["debug", "--commands"]).arg(&file).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("KILN_CACHE_DIR", "").env("KILN_PACKAGE_ONLY", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(&file).unwrap();
    output
}

/// Whether this process is the one that is debugged.
fn is_debugged() -> bool {
    std::env::var_os("KILN_DEBUG").is_some()
}

#[kernel(crate = kiln_runtime)]
fn triple(y: &mut Tensor<i64, 1>) {
    let i = thread_index();
    let tripled = i.get() * 3;
    y.set(i, tripled);
}

fn run_triple() -> Tensor<i64, 1> {
    let device = Device::open("cuda:0").unwrap();
    assert_eq!(device.id(), "interp");
    let mut y = device.zeros::<i64, 1>([4]).unwrap();
    triple(&mut y).grid([1]).block([4]).launch(&device).unwrap();
    y
}

/// The program's standard input is its own, and what it prints comes between the session's lines.
#[test]
fn the_program_reads_its_input() {
    if is_debugged() {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).unwrap();
        println!("read {text}");
        println!("and computed {:?}", run_triple().to_vec().unwrap());
        return;
    }
    let output =
        debug("break triple thread 2\nrun\nstep\nstep\nprint tripled\n", "the_program_reads_its_input", "42");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let order = ["read 42\n", "(kiln) run\n", "thread [2, 0, 0]", "(kiln) print tripled\ntripled = 6 i64\n"];
    let mut rest = text.as_str();
    for part in order.into_iter().chain(["and computed [0, 3, 6, 9]"]) {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("no `{part}` in order: {text}")).1;
    }
}

#[test]
fn the_exit_status_is_the_programs() {
    if is_debugged() {
        run_triple();
        std::process::exit(7);
    }
    assert_eq!(debug("run\n", "the_exit_status_is_the_programs", "").status.code(), Some(7));
    // A program that ends before its first kernel has opened a device all the same.
    let output = debug("quit\n", "the_exit_status_is_the_programs", "");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
    // It has not come to its end.
    let output = debug("step\nquit\n", "the_exit_status_is_the_programs", "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_cannot_be_debugged_is_said() {
    if is_debugged() {
        return;
    }
    let output = debug("run\n", "what_cannot_be_debugged_is_said", "");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("has opened no device (exit status: 0)"), "{text}");
    for (arguments, said) in [
        (&["debug", "--commands", "Cargo.toml", "no-such-program"][..], "kiln: no-such-program: "),
        (&["debug", "--commands", "no-such-file", "no-such-program"], "kiln: no-such-file: "),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with(said), "{output:?}");
    }
}

/// A pipe has commands once, and the program could not read it in this one's place.
#[cfg(unix)]
#[test]
fn commands_come_from_a_pipe() {
    if is_debugged() {
        println!("computed {:?}", run_triple().to_vec().unwrap());
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(["debug", "--commands", "/dev/stdin"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "commands_come_from_a_pipe", "--nocapture"]).env("KILN_CACHE_DIR", "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"break triple\nrun\nprint y\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.contains("y = [0, 0, 0, 0] i64[4]") && text.contains("computed [0, 3, 6, 9]"), "{text}");
}

/// The program does not run for commands that cannot be read.
#[test]
fn commands_that_cannot_be_read_are_said() {
    let folder = std::env::temp_dir().join(format!("kiln-cli-commands-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("binary");
    std::fs::write(&binary, b"run\n\xff\n").unwrap();
    for file in [&folder, &binary] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let output = command.args(["debug", "--commands"]).arg(file).arg("no-such-program").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.starts_with(&format!("kiln: {}: ", file.display())), "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
