//! The command as a user runs it: output, errors, exit codes.

use kiln_cpu::CpuBackend;
use kiln_runtime::{Device, DiskCache};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn kiln(args: &[&str]) -> Output {
    let cache = std::env::temp_dir().join(format!("kiln-command-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.env("KILN_CACHE_DIR", cache).env_remove("KILN_DEVICE").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("kiln-command-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

const DOUBLE: &str = "kernel @double(%n: i64) tile {\n  %0 = const 2 : i64\n  %1 = mul %n, %0 : i64\n}\n";

#[test]
fn doctor_finds_the_devices_of_every_machine() {
    let output = kiln(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let devices: Vec<&str> =
        found["devices"].as_array().unwrap().iter().filter_map(|d| d["id"].as_str()).collect();
    assert!(devices.ends_with(&["cpu", "interp"]), "{devices:?}");
    let mailboxes = found["mailboxes"].as_array().unwrap();
    assert_eq!(mailboxes.len(), 2 * devices.len(), "host and device memory of each");
    assert!(mailboxes.iter().all(|m| m["what"].is_null() != m["why"].is_null()), "{mailboxes:?}");
    assert_eq!(found["cache"]["writable"], true);
    assert_eq!(found["driver"].is_null(), !devices.contains(&"cuda:0"));
    let people = text(&kiln(&["doctor"]).stdout);
    for heading in ["Devices\n", "System\n", "Mailboxes\n", "Missing\n"] {
        assert!(people.contains(heading), "{people}");
    }
}

#[test]
fn doctor_says_what_is_missing() {
    let blocked = file("not-a-folder", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let command =
        command.args(["doctor", "--json"]).env("KILN_CACHE_DIR", &blocked).env("KILN_DEVICE", "abacus");
    let output = command.output().unwrap();
    std::fs::remove_file(blocked).unwrap();
    assert_eq!(output.status.code(), Some(1), "the chosen device is not there");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing: Vec<&str> =
        found["missing"].as_array().unwrap().iter().filter_map(|m| m["what"].as_str()).collect();
    assert!(missing.contains(&"program cache") && missing.contains(&"default device"), "{missing:?}");
    assert_eq!(found["cache"]["writable"], false);
}

/// What a device's name may have besides is no other device.
#[test]
fn doctor_knows_names_with_options() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let command =
        command.args(["doctor", "--json"]).env("KILN_CACHE_DIR", "").env("KILN_DEVICE", "interp:fast");
    let output = command.output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["default"]), (Some(0), &Value::from("interp:fast")));
}

/// Nothing but the document is on standard output.
#[test]
fn every_command_prints_json() {
    let kernel = file("json.kir", DOUBLE);
    let kernel = kernel.to_str().unwrap();
    let nowhere = std::env::temp_dir().join("kiln-command-no-such-folder");
    let nowhere = nowhere.to_str().unwrap();
    let commands: [(&[&str], &str); 10] = [
        (&["doctor"], "devices"),
        (&["selftest", "--list"], "cases"),
        (&["selftest", "--device", "interp", "--filter", "tensors::zeros::f32"], "passed"),
        (&["compile", kernel, "--emit", "tir"], "text"),
        (&["cache", "stats"], "programs"),
        (&["cache", "choices"], "choices"),
        (&["ring", "top", "--once", "--dir", nowhere], "actors"),
        (&["fuzz", "--device", "cpu", "--kernels", "1"], "found"),
        (&["accuracy", "--device", "cpu", "--function", "sqrt", "--samples", "1"], "rows"),
        (&["bench", "ring", "--device", "cpu", "--soak", "1", "--rate", "1000"], "rows"),
    ];
    for (args, key) in commands {
        let output = kiln(&[args, &["--json"]].concat());
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert!(output.status.success() && !found[key].is_null(), "{args:?}: {output:?}");
    }
    let help = text(&kiln(&["--help"]).stdout);
    assert!(help.contains("Exit status:") && help.contains("Every command but debug has --json"), "{help}");
    for line in
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty())
    {
        let command = line.split_whitespace().next().unwrap();
        let known = commands.iter().any(|(args, _)| args[0] == command);
        // `sanitize.rs`, `debug.rs` and `package.rs` try those: they need a program.
        let elsewhere = ["help", "sanitize", "debug", "package"].contains(&command);
        assert!(known || elsewhere, "`{command}` is not tried here");
    }
    std::fs::remove_file(kernel).unwrap();
}

#[test]
fn exit_codes_agree() {
    for args in [&["selftest"][..], &["bench"], &["fuzz"], &["accuracy"]] {
        let output = kiln(&[args, &["--device", "abacus"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("no device is called `abacus`"), "{output:?}");
    }
    for args in [&["selftest"][..], &["bench"]] {
        let output = kiln(&[args, &["--device", "cuda:4096"]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    assert_eq!(kiln(&["no-such-command"]).status.code(), Some(2));
    assert_eq!(kiln(&["bench", "no such row", "--device", "cpu"]).status.code(), Some(2));
    let ring = kiln(&["bench", "ring", "--only", "no such row", "--device", "cpu"]);
    assert_eq!(ring.status.code(), Some(2), "{ring:?}");
    assert!(text(&ring.stderr).contains("`no such row`"), "{ring:?}");
}

/// Two processes can be given turns, and one that gets none says so.
#[test]
fn a_ring_row_waits_for_its_turns() {
    let run = |turns: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.args(["bench", "ring", "--device", "cpu", "--only", "baseline_launch", "--turns", "2"]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(turns.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = run("\n\n");
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.lines().filter(|line| *line == "turn").count(), 2, "{said}");
    assert!(said.contains("ring.baseline_launch_48B: slices = 2"), "{said}");
    let output = run("\n");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("turn"), "{output:?}");
}

/// `kiln … | head` ends when `head` has seen enough, and before another minute of measuring.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_leaves_is_no_failure() {
    for args in [&["bench", "ring", "--device", "cpu"][..], &["doctor"], &["selftest", "--list"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let output = command.args(args).env_remove("KILN_DEVICE").stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    }
}

/// A case that tunes keeps its choice, but not where the user's programs look for theirs.
#[test]
fn selftest_leaves_the_users_cache_alone() {
    let folder = std::env::temp_dir().join(format!("kiln-command-{}-untouched", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(["selftest", "--device", "cpu", "--filter", "products::tuned::f32"]);
    let child = command.env("KILN_CACHE_DIR", &folder).stdout(Stdio::piped()).spawn().unwrap();
    let own = std::env::temp_dir().join(format!("kiln-selftest-{}", child.id()));
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stdout).ends_with("1 passed, 0 failed, 0 skipped\n"), "{output:?}");
    assert!(!folder.exists(), "it wrote to the cache that the user's programs have");
    assert!(!own.exists(), "it left its own cache behind");
}

/// A driver that is there and fails is not the same as none: nothing falls back to the processor in
/// silence.
#[cfg(target_os = "linux")]
#[test]
fn a_driver_that_fails_is_an_error() {
    let folder = std::env::temp_dir().join(format!("kiln-command-{}-driver", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libcuda.so.1"), "no library").unwrap();
    let run = |args: &[&str], device: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command
            .env("LD_LIBRARY_PATH", &folder)
            .env("KILN_CACHE_DIR", "")
            .env_remove("KILN_DEVICE")
            .args(args);
        command.envs(device.map(|device| ("KILN_DEVICE", device))).output().unwrap()
    };
    let found: Value = serde_json::from_slice(&run(&["doctor", "--json"], None).stdout).unwrap();
    let chosen: Value = serde_json::from_slice(&run(&["doctor", "--json"], Some("cpu")).stdout).unwrap();
    let bench = run(&["bench", "launch"], None);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((&found["default"], &chosen["default"]), (&Value::from("none"), &Value::from("cpu")));
    let missing = |found: &Value, what: &str| {
        let all = found["missing"].as_array().unwrap();
        all.iter().find(|m| m["what"] == what).map(|m| m["why"].as_str().unwrap().to_owned())
    };
    assert!(missing(&found, "NVIDIA driver").unwrap().contains("libcuda.so.1"), "{found}");
    let why = missing(&found, "default device").unwrap();
    assert!(why.contains("libcuda.so.1") && why.contains("KILN_DEVICE=cpu"), "{why}");
    assert!(missing(&chosen, "default device").is_none());
    let error = text(&bench.stderr);
    assert!(!bench.status.success() && error.contains("KILN_DEVICE=cpu"), "{bench:?}");
}

/// A variable that was set by accident, or inherited, does not turn a program into a process of a
/// device.
#[cfg(unix)]
#[test]
fn a_variable_set_by_accident_does_nothing() {
    let values = ["", "1", "cpu", "kiln-1/0123456789abcdef0123456789abcdef/cpu"];
    for value in values {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.env("KILN_ISOLATED", value).env("KILN_CACHE_DIR", "").env_remove("KILN_DEVICE");
        let output = command.args(["doctor", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{value:?}: {output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(found["devices"].is_array(), "{value:?}: {found}");
    }
    // And such a process can have devices in processes of their own.
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.env("KILN_ISOLATED", "cpu").env("KILN_CACHE_DIR", "");
    let output = command.args(["selftest", "--device", "isolated:cpu", "--filter", "copy"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn compile_prints_stages() {
    let path = file("double.kir", DOUBLE);
    let name = path.to_str().unwrap();
    assert_eq!(text(&kiln(&["compile", name, "--emit", "ir"]).stdout), DOUBLE);
    for target in ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_101", "sm_120"] {
        let ptx = kiln(&["compile", name, "--emit", "ptx", "--target", target]);
        assert!(text(&ptx.stdout).contains(&format!(".target {target}\n")), "{ptx:?}");
    }
    let tir = kiln(&["compile", name, "--emit", "tir", "--target", "sm_90"]);
    assert!(text(&tir.stdout).contains("thread"), "{tir:?}");
    let tasks = kiln(&["compile", name, "--emit", "tasks", "--target", "sm_90"]);
    let why = format!("kiln: {name}: it gets no task that copies: it has no products of matrices\n");
    assert_eq!(text(&tasks.stderr), why);
    let clif = kiln(&["compile", name, "--emit", "clif"]);
    assert!(text(&clif.stdout).contains("function"), "{clif:?}");
    let unfitting = kiln(&["compile", name, "--emit", "ptx", "--target", "cpu"]);
    assert_eq!(unfitting.status.code(), Some(2));
    assert!(text(&unfitting.stderr).contains("sm_75 to sm_120"), "{unfitting:?}");
    std::fs::remove_file(path).unwrap();
}

/// SPIR-V is words, the first of which is its magic number.
#[cfg(feature = "wgpu")]
#[test]
fn compile_prints_shaders() {
    let path = file("shader.kir", DOUBLE);
    let name = path.to_str().unwrap();
    for (stage, part) in [("wgsl", "@workgroup_size("), ("msl", "kernel void "), ("hlsl", "[numthreads(")] {
        let output = kiln(&["compile", name, "--emit", stage]);
        assert!(text(&output.stdout).contains(part), "{stage}: {output:?}");
    }
    let binary = kiln(&["compile", name, "--emit", "spv"]).stdout;
    assert_eq!(binary[..4], 0x0723_0203u32.to_le_bytes());
    let json = kiln(&["compile", name, "--emit", "spv", "--json"]).stdout;
    let found: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&found["target"], &found["words"][0]), (&"portable".into(), &0x0723_0203u32.into()));
    assert_eq!(found["words"].as_array().map(Vec::len), Some(binary.len() / 4));
    let unfitting = kiln(&["compile", name, "--emit", "wgsl", "--target", "sm_90"]);
    assert_eq!(unfitting.status.code(), Some(2));
    assert!(text(&unfitting.stderr).contains("portable"), "{unfitting:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn compile_names_the_place_of_a_mistake() {
    let wrong = file("wrong.kir", "kernel @k() tile {\n  %1 = mul %n : i64\n}");
    let output = kiln(&["compile", wrong.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("wrong.kir:2:12: expected a value"), "{output:?}");
    let invalid = "kernel @k(%x: f32) tile {\n  %0 = const 2 : i64\n  %1 = add %0, %x : i64\n}\n";
    let invalid = file("invalid.kir", invalid);
    let output = kiln(&["compile", invalid.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("invalid.kir:3:3: operand 1 is f32, expected i64"), "{output:?}");
    for path in [wrong, invalid] {
        std::fs::remove_file(path).unwrap();
    }
    let absent = kiln(&["compile", "no-such-file.kir"]);
    assert_eq!((absent.status.code(), text(&absent.stderr).contains("no-such-file.kir")), (Some(1), true));
}

#[test]
fn selftest_ends_with_the_counts() {
    let output = kiln(&["selftest", "--device", "interp", "--filter", "tensors::round_trip"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout).lines().last(), Some("9 passed, 0 failed, 0 skipped"));
    let json = kiln(&["selftest", "--device", "cpu", "--filter", "tensors::zeros", "--json"]);
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((found["passed"].as_u64(), found["failed"].as_u64()), (Some(7), Some(0)));
    assert_eq!(kiln(&["selftest", "--filter", "no such case"]).status.code(), Some(2));
    assert_eq!(kiln(&["selftest", "--device", "abacus"]).status.code(), Some(2));
    let part = kiln(&[
        "selftest",
        "--device",
        "interp",
        "--filter",
        "tensors::round_trip",
        "--shard",
        "2/4",
        "--verbose",
    ]);
    let names = text(&part.stdout).lines().filter(|line| line.starts_with("passed: ")).count();
    assert_eq!((names, text(&part.stdout).lines().last()), (2, Some("2 passed, 0 failed, 0 skipped")));
    assert_eq!(kiln(&["selftest", "--shard", "5/4"]).status.code(), Some(2));
    let list = text(&kiln(&["selftest", "--list"]).stdout);
    assert!(list.lines().any(|name| name == "faults::failing_assert"), "{list}");
    let fewer = text(&kiln(&["selftest", "--list", "--skip", "faults::", "--skip", "scan::"]).stdout);
    let left = |name: &&str| !name.contains("faults::") && !name.contains("scan::");
    assert!(fewer.lines().eq(list.lines().filter(left)), "{fewer}");
    let sweep = text(&kiln(&["selftest", "--sweep", "--list"]).stdout);
    assert!(sweep.lines().all(|name| !list.lines().any(|other| other == name)), "{sweep}");
    assert!(sweep.lines().any(|name| name == "attention::any_lengths::bf16"), "{sweep}");
}

#[test]
fn cache_is_counted_and_cleared() {
    let folder = std::env::temp_dir().join(format!("kiln-cache-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.kiln"), [0; 100]).unwrap();
    let run = |action: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let output = command.args(["cache", action]).env("KILN_CACHE_DIR", &folder).output().unwrap();
        text(&output.stdout)
    };
    let device = Device::with_backend(Box::new(CpuBackend::new()), DiskCache::at(&folder));
    device.keep_choice("how to add", "by fours");
    let choices = run("choices");
    assert!(choices.starts_with("Kiln ") && choices.ends_with(" | how to add | by fours\n"), "{choices}");
    assert!(run("stats").ends_with(": 1 program, 100 B, 1 choice; at most 4 GiB\n"));
    assert!(run("clear").ends_with(": removed 1 program, 100 B, 1 choice\n"));
    assert!(run("stats").ends_with(": 0 programs, 0 B, 0 choices; at most 4 GiB\n"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn ring_top_of_nothing() {
    let folder = std::env::temp_dir().join(format!("kiln-command-{}-no-such-folder", std::process::id()));
    let folder = folder.to_str().unwrap();
    let output = kiln(&["ring", "top", "--json", "--dir", folder]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["actors"], serde_json::json!([]));
    // Not to a terminal: once, and no control characters.
    let people = kiln(&["ring", "top", "--dir", folder]);
    assert!(text(&people.stdout).contains("no actor is published"), "{}", text(&people.stdout));
    assert_eq!(kiln(&["ring", "top", "--every", "0"]).status.code(), Some(2));
}

#[test]
fn first_calls_are_measured_on_nvidia_gpus_alone() {
    let output = kiln(&["bench", "--device", "cpu", "--first-call", "softmax"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("`--first-call` measures NVIDIA GPUs, and cpu is none"), "{said}");
}

#[test]
fn a_soak_verifies_and_counts() {
    let path = file("soak.json", "");
    let path_text = path.to_str().unwrap();
    let args = ["bench", "ring", "--device", "cpu", "--soak", "2", "--rate", "5000", "--json", path_text];
    let output = kiln(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    std::fs::remove_file(path).unwrap();
    let row = &rows["rows"][0];
    let sent = row["sent"].as_u64().unwrap();
    // At most what two seconds ask for; a busy machine sends less.
    assert!((1..=10_000).contains(&sent), "{row}");
    assert_eq!((&row["lost"], &row["processed_by_device"]), (&0.into(), &sent.into()));
    assert!(row["wrong"].is_null() && row["p99_us"].as_f64() > Some(0.0), "{row}");
}

/// The assembler of this test ends the process that runs it at every ballot.
#[cfg(unix)]
#[test]
fn fuzz_makes_a_kernel_smaller_that_ends_its_process() {
    use std::os::unix::fs::PermissionsExt as _;
    let assembler = file(
        "assembler",
        "#!/bin/sh\nfor ptx; do :; done\ngrep -q vote.sync.ballot \"$ptx\" && kill -9 $PPID\nexit 0\n",
    );
    std::fs::set_permissions(&assembler, std::fs::Permissions::from_mode(0o755)).unwrap();
    // A kernel that has a ballot, among much else.
    let args = ["fuzz", "--device", "interp:gpu-code", "--mode", "thread", "--seed", "268", "--kernels", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).env("KILN_PTXAS", &assembler).args(args).output();
    let output = output.unwrap();
    std::fs::remove_file(assembler).unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("; the process that ran it ended, or hung: signal: 9"), "{said}");
    assert!(said.ends_with("1 kernels, 1 differ\n"), "{said}");
    // First as it is, and then the ballot, what it asks, and a store to memory of the thread.
    let (whole, smaller) = said.rsplit_once("; the process that ran it ended").unwrap();
    let results = |text: &str| text.lines().filter(|line| line.trim().starts_with('%')).count();
    assert!(smaller.contains("vote.ballot") && results(smaller) <= 4, "{said}");
    assert!(whole.contains("vote.ballot") && results(whole) > 4, "{said}");
}

#[test]
fn fuzz_runs_the_kernels_of_seeds_and_of_files() {
    for device in ["cpu", "interp", "interp:gpu-code"] {
        let output = kiln(&["fuzz", "--device", device, "--kernels", "16", "--jobs", "2"]);
        assert_eq!(text(&output.stdout), "16 kernels, 0 differ\n", "{device}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0));
    }
    // The second program reads where the first one writes: no device may be asked what comes of it.
    let races = file(
        "races.kir",
        "; @grid 2 1 1\n; @arg i64[2]: 5 7\nkernel @races(%x: mut view<i64, 1, global>) tile {\n  \
         %0 = program_id x : i64\n  %1 = const 0 : i64\n  %2 = load %x[%1] pad %1 : i64[2]\n  \
         store %x[%1] = %2\n  %3 = broadcast %0 : i64[2]\n  store %x[%1] = %3\n}\n",
    );
    let output = kiln(&["fuzz", "--device", "cpu", "--replay", races.to_str().unwrap()]);
    std::fs::remove_file(races).unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("breaks a rule") && said.ends_with("1 kernels, 1 differ\n"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let output = kiln(&["fuzz", "--mode", "fast"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("a mode is one of tile, thread, fault_regions"));
}

/// Each kernel that runs leaves the stages that were asked for, which parse and match.
#[test]
fn a_running_program_writes_its_stages() {
    let folder = std::env::temp_dir().join(format!("kiln-command-{}-dump", std::process::id()));
    let selftest = |stages: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let command =
            command.env("KILN_DUMP", stages).env("KILN_DUMP_DIR", &folder).env("KILN_CACHE_DIR", "");
        command.args(["selftest", "--device", "cpu", "--filter", "graphs::chain"]).output().unwrap()
    };
    let output = selftest("ir,clif,ptx");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let [clif, ir] = &names[..] else { panic!("{names:?}") };
    let stem = ir.strip_suffix(".ir").unwrap();
    assert!(stem.starts_with("advance-") && *clif == format!("{stem}.cpu.clif"), "{names:?}");
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(kiln_ir::parse(&read(ir)).unwrap().name, "advance");
    assert!(read(clif).contains("function u0:"), "{}", read(clif));
    std::fs::remove_dir_all(&folder).unwrap();

    let output = selftest("ir,assembly");
    assert_ne!(output.status.code(), Some(0));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("`assembly`") && said.contains("ir, tir, ptx, sass, clif, wgsl, spv"), "{said}");
    assert!(!folder.exists());
}
