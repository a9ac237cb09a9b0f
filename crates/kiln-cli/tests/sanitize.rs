//! `kiln sanitize`: this test program is also the program that is sanitized.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Tensor};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Runs `kiln sanitize` with the test of this name as the program.
fn sanitize(options: &[&str], test: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.arg("sanitize").args(options).arg(std::env::current_exe().unwrap());
    // What is set for programs that start from packages does not reach this one.
    command.env("KILN_PACKAGE_ONLY", "1");
    command.args(["--exact", test, "--nocapture"]).env("KILN_CACHE_DIR", "").output().unwrap()
}

/// Whether this process is the one that is sanitized.
fn is_sanitized() -> bool {
    std::env::var_os("KILN_SANITIZE").is_some()
}

#[kernel(crate = kiln_runtime)]
fn everybody_writes(y: &mut Tensor<i64, 1>) {
    // SAFETY: none, which is the mistake.
    unsafe { y.write(0, program_id(0)) };
}

#[kernel(crate = kiln_runtime)]
fn numbers(y: &mut Tensor<i64, 1>) {
    let i = thread_index();
    if i.get() < 3 {
        y.set(i, i.get());
    }
}

/// A program that asks for a device by name, and does not look at the outcome of a launch.
#[test]
fn a_wrong_program_is_reported() {
    if is_sanitized() {
        let device = Device::open("cpu").unwrap();
        assert_eq!(device.id(), "interp");
        for _ in 0..2 {
            let mut y = device.zeros::<i64, 1>([4]).unwrap();
            everybody_writes(&mut y).grid([2]).block([1]).launch(&device).unwrap();
        }
        let other = Device::open("cuda:0").unwrap();
        let mut y = other.uninit::<i64, 1>([4]).unwrap();
        numbers(&mut y).grid([1]).block([4]).launch(&other).unwrap();
        return;
    }
    let output = sanitize(&[], "a_wrong_program_is_reported");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let race = "data race in `everybody_writes`: `y[0]` is written by thread 0 of block 1 and was written by thread 0 of \
                block 0 at crates/kiln-cli/tests/sanitize.rs:";
    assert!(text.contains(race) && text.contains("thread [0, 0, 0] (2 times)\n2 reports\n"), "{text}");
}

/// What is found on the host's side counts too, and the program's failure is told.
#[test]
fn a_program_that_fails_is_reported() {
    if is_sanitized() {
        let device = Device::default().unwrap();
        let mut y = device.uninit::<i64, 1>([4]).unwrap();
        numbers(&mut y).grid([1]).block([4]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0, 1, 2, 3]);
        return;
    }
    let output = sanitize(&["--json"], "a_program_that_fails_is_reported");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["count"], &found["status"]), (&1.into(), &101.into()), "{found}");
    let text = found["reports"][0]["text"].as_str().unwrap();
    assert!(text.contains("1 of 4"), "{text}");
}

#[test]
fn a_right_program_has_no_reports() {
    if is_sanitized() {
        let device = Device::open("isolated:cpu").unwrap();
        let mut y = device.uninit::<i64, 1>([3]).unwrap();
        numbers(&mut y).grid([1]).block([4]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0, 1, 2]);
        // Without the sanitizer it would find nothing.
        assert_eq!(Device::open("interp:fast").unwrap().id(), std::env::var("KILN_SANITIZE").unwrap());
        assert!(Device::open("abacus").is_err());
        return;
    }
    for options in [&[][..], &["--seed", "7"]] {
        let output = sanitize(options, "a_right_program_has_no_reports");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.ends_with("\n0 reports\n"), "{text}");
    }
}

/// It would have no reports, which says nothing of it.
#[test]
fn a_program_without_a_device_is_an_error() {
    if is_sanitized() {
        return;
    }
    let output = sanitize(&[], "a_program_without_a_device_is_an_error");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("has opened no device (exit status: 0)"),
        "{output:?}"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let missing = command.args(["sanitize", "no-such-program"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("kiln: no-such-program: "), "{missing:?}");
}

/// A device without checks would find nothing, and nobody would say so.
#[test]
fn the_variables_name_the_interpreter_alone() {
    const ROLE: &str = "SANITIZE_TEST_ROLE";
    if std::env::var_os(ROLE).is_some() {
        println!("{}", Device::open("cpu").unwrap_err());
        return;
    }
    let others = ["cpu", "cuda:0", "interpreter", "interp:fast", "interp:fast:7"];
    for (variable, others) in [("KILN_SANITIZE", &others[..]), ("KILN_DEBUG", &others[..3])] {
        for name in others {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "the_variables_name_the_interpreter_alone", "--nocapture"]);
            let output = command.env(ROLE, "").env(variable, name).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(&format!("`{name}` as {variable} is not available")), "{text}");
        }
    }
}

/// The number of reports is a line of its own, also where the program's last one has no end.
#[test]
fn an_unfinished_line_is_ended() {
    if is_sanitized() {
        assert_eq!(Device::open("cpu").unwrap().id(), "interp");
        print!("half a line");
        std::io::stdout().flush().unwrap();
        std::process::exit(0);
    }
    let text = String::from_utf8(sanitize(&[], "an_unfinished_line_is_ended").stdout).unwrap();
    assert!(text.ends_with("half a line\n0 reports\n"), "{text}");
}

/// A script that looks at the first lines alone learns that the program is wrong.
#[test]
fn the_exit_status_remains_without_a_reader() {
    const TEST: &str = "the_exit_status_remains_without_a_reader";
    if is_sanitized() {
        let device = Device::open("cpu").unwrap();
        let mut y = device.zeros::<i64, 1>([4]).unwrap();
        everybody_writes(&mut y).grid([2]).block([1]).launch(&device).unwrap();
        return;
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(["sanitize", "--json"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", TEST]).env("KILN_CACHE_DIR", "");
    let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[cfg(unix)]
#[test]
fn a_signal_is_told() {
    if is_sanitized() {
        Device::open("cpu").unwrap();
        std::process::abort();
    }
    let output = sanitize(&["--json"], "a_signal_is_told");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["status"], &found["signal"]), (&Value::Null, &6.into()), "{found}");
}

/// What keeps a program from running or from reporting is said as it is.
#[cfg(unix)]
#[test]
fn what_keeps_a_program_from_running_is_said() {
    let folder = std::env::temp_dir().join(format!("kiln-cli-sanitize-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("train"), "").unwrap();
    let run = |program: &str, temporary: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.args(["sanitize", program]).current_dir(&folder).env("TMPDIR", temporary);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let text = run("train", folder.to_str().unwrap());
    assert_eq!(text, "kiln: there is no `train` in PATH; the one in this folder is ./train\n");
    let text = run("/bin/true", "/no/such/folder");
    assert!(text.starts_with("kiln: /no/such/folder/kiln-sanitize-"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program that starts from a package, and compiles nothing, runs under the sanitizer as it is.
#[test]
fn a_program_with_packages_is_sanitized() {
    if is_sanitized() {
        let device = Device::open("cpu").unwrap();
        let empty = kiln_runtime::PackageBuilder::default().finish();
        // SAFETY: it has no code.
        unsafe { device.load_package_bytes(empty) }.unwrap();
        device.require_packages(true);
        let mut y = device.uninit::<i64, 1>([3]).unwrap();
        numbers(&mut y).grid([1]).block([4]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0, 1, 2]);
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.arg("sanitize").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "a_program_with_packages_is_sanitized", "--nocapture"]);
    let output = command.env("KILN_PACKAGE_ONLY", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.ends_with("\n0 reports\n"), "{text}");
}
