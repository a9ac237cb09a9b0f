//! `kiln accuracy`: functions are as accurate as documented, and one that is not is reported.

use serde_json::Value;
use std::process::{Command, Output};

fn accuracy(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.arg("accuracy").args(args).env("KILN_CACHE_DIR", "").env_remove("KILN_DEVICE").output().unwrap()
}

fn within_bounds(device: &str) {
    let output = accuracy(&["--device", device, "--samples", "8192", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let rows = found["rows"].as_array().unwrap();
    let failed: Vec<&Value> = rows.iter().filter(|row| row["failed"] == true).collect();
    assert!(output.status.success() && failed.is_empty(), "{failed:#?}");
    // Every function in four types.
    assert!(rows.len() > 100 && rows.len().is_multiple_of(4), "{}", rows.len());
    let of_16_bits = rows.iter().find(|row| row["function"] == "exp" && row["type"] == "f16").unwrap();
    assert_eq!(of_16_bits["results"], 1 << 16);
}

#[test]
fn functions_of_the_interpreter_are_as_documented() {
    within_bounds("interp:fast");
}

#[test]
fn functions_of_the_cpu_are_as_documented() {
    within_bounds("cpu");
}

#[test]
fn results_go_to_a_file_beside_the_table() {
    let file = std::env::temp_dir().join(format!("kiln-accuracy-{}.json", std::process::id()));
    let path = file.to_str().unwrap();
    let args =
        ["--device", "cpu", "--function", "sqrt", "--type", "f32", "--samples", "1000", "--commit", "c0ffee"];
    let output = accuracy(&[&args[..], &["--json", path]].concat());
    let found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(file).unwrap();
    assert_eq!((&found["commit"], &found["rows"][0]["wrong"]), (&"c0ffee".into(), &0.into()));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("\nsqrt       f32 ") && table.ends_with("1 functions, 0 worse than documented\n"),
        "{table}"
    );
    let unknown = accuracy(&["--function", "sqr"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("a function is one of exp, exp2, "),
        "{unknown:?}"
    );
}
