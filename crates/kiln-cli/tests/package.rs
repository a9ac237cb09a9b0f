//! `kiln package` and `kiln cache`: this test program is also the program whose kernels are
//! packaged, and the one that loads them.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Package, ProgramSource, Tensor};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Variable by which this process is the program: it says what of.
const ROLE: &str = "PACKAGE_TEST_ROLE";

#[kernel(crate = kiln_runtime)]
fn squares(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let tile = x.tile(program_id(0) * 16, 16).load(0.0);
    y.tile(program_id(0) * 16, 16).store(tile * tile);
}

/// Of the two element types: what the program does with its kernel.
fn squares_of_37(device: &Device) {
    let x: Vec<f32> = (0..37).map(|i| i as f32 * 0.25 - 3.0).collect();
    let mut y = device.zeros([37]).unwrap();
    squares(&device.tensor(&x, [37]).unwrap(), &mut y).launch(device).unwrap();
    for (&x, y) in x.iter().zip(y.to_vec().unwrap()) {
        assert!((f64::from(x) * f64::from(x) - f64::from(y)).abs() <= 1e-6 * f64::from(y).abs());
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("kiln-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kiln(arguments: &[&str], cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(arguments).env("KILN_CACHE_DIR", cache);
    command
}

/// This program, with one of its tests, as a program of that role.
fn itself(command: &mut Command, test: &str, role: &str) -> Output {
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role).output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().iter().map(|&byte| char::from(byte)).collect()
}

#[test]
fn a_packaged_program_compiles_nothing() {
    const TEST: &str = "a_packaged_program_compiles_nothing";
    let program = std::env::current_exe().unwrap();
    match std::env::var(ROLE).as_deref() {
        Ok("recorded") => return squares_of_37(&Device::open("cpu").unwrap()),
        Ok("loads") => {
            let device = Device::open("cpu").unwrap();
            squares_of_37(&device);
            let builds = device.programs().builds();
            assert!(builds.iter().all(|build| build.source == ProgramSource::Package), "{builds:?}");
            assert_eq!(device.package_stats().loaded, 1);
            // A kernel that is in none: other extents.
            let (x, mut y) = (device.zeros([32]).unwrap(), device.zeros([32]).unwrap());
            let error = squares(&x, &mut y).launch(&device).unwrap_err().to_string();
            assert!(error.contains("`squares` is in no package of cpu"), "{error}");
            // Devices of other backends go without.
            assert!(Device::open("interp").is_ok());
            return;
        }
        _ => {}
    }
    let folder = Folder::new("package");
    let file = folder.0.join("out.kiln");
    let mut targets = vec!["--target", "cpu", "--target", "sm_90", "--target", "sm_100", "--target", "sm_80"];
    // One that is named twice is there once.
    targets.extend(["--target", "sm_90"]);
    let mut command = kiln(&["package", "--json", "-o", file.to_str().unwrap()], &folder.0);
    let output = itself(command.args(targets).arg(&program), TEST, "recorded");
    assert!(output.status.success(), "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["kernels"], &found["programs"]), (&1.into(), &4.into()), "{found}");
    assert_eq!(found["bytes"], fs::metadata(&file).unwrap().len());
    let package = Package::open(&file).unwrap();
    let kernels: Vec<_> = package.kernels().collect();
    assert_eq!(kernels, ["cpu", "sm_90", "sm_100", "sm_80"].map(|target| ("squares", target)));

    let loads = |file: &Path| {
        let mut command = Command::new(&program);
        command.env("KILN_PACKAGE", file).env("KILN_PACKAGE_ONLY", "1").env("KILN_CACHE_DIR", "");
        itself(&mut command, TEST, "loads")
    };
    let output = loads(&file);
    assert!(output.status.success(), "{}", text(&output));
    // A damaged one is refused as the device is opened, by name.
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = folder.0.join("damaged.kiln");
    fs::write(&damaged, bytes).unwrap();
    let output = loads(&damaged);
    assert!(!output.status.success());
    assert!(text(&output).contains("damaged.kiln: it is damaged"), "{}", text(&output));
}

/// Recorded on the cpu and loaded on an adapter of Vulkan, if there is one.
#[cfg(feature = "wgpu")]
#[test]
fn a_program_is_packaged_for_an_adapter() {
    const TEST: &str = "a_program_is_packaged_for_an_adapter";
    match std::env::var(ROLE).as_deref() {
        Ok("recorded") => return squares_of_37(&Device::open("cpu").unwrap()),
        Ok("loads") => {
            let device = Device::open("wgpu").unwrap_or_else(|error| panic!("{error}"));
            squares_of_37(&device);
            assert!(device.programs().builds().iter().all(|build| build.source == ProgramSource::Package));
            assert_eq!(device.package_stats().loaded, 1);
            return;
        }
        _ => {}
    }
    if Device::open("wgpu:vulkan").is_err() {
        return;
    }
    let folder = Folder::new("package-adapter");
    let (file, program) = (folder.0.join("out.kiln"), std::env::current_exe().unwrap());
    let mut command = kiln(&["package", "-o", file.to_str().unwrap()], &folder.0);
    let output = itself(command.args(["--target", "wgpu:vulkan"]).arg(&program), TEST, "recorded");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(Package::open(&file).unwrap().kernels().collect::<Vec<_>>(), [("squares", "wgpu")]);
    let loads = |without: &str| {
        let mut command = Command::new(&program);
        command.env("KILN_PACKAGE", &file).env("KILN_PACKAGE_ONLY", "1").env("KILN_CACHE_DIR", "");
        itself(command.env("KILN_WGPU_WITHOUT", without), TEST, "loads")
    };
    let output = loads("");
    assert!(output.status.success(), "{}", text(&output));
    let output = loads("i64");
    let said = text(&output);
    assert!(!output.status.success() && said.contains("its code for wgpu needs SHADER_INT64"), "{said}");
}

#[test]
fn what_cannot_be_packaged_is_said() {
    const TEST: &str = "what_cannot_be_packaged_is_said";
    match std::env::var(ROLE).as_deref() {
        Ok("nothing") => return,
        Ok("fails") => panic!("it fails"),
        _ => {}
    }
    let folder = Folder::new("package-errors");
    let program = std::env::current_exe().unwrap();
    let said = |arguments: &[&str], role: &str| {
        let file = folder.0.join("out.kiln");
        let mut command = kiln(&["package", "-o", file.to_str().unwrap()], &folder.0);
        let output = itself(command.args(arguments).arg(&program), TEST, role);
        assert!(!file.exists());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = said(&["--target", "sm_91"], "nothing");
    assert_eq!(status, Some(2));
    assert!(text.contains("there is no target `sm_91`; there are sm_75, sm_80"), "{text}");
    if cfg!(not(feature = "wgpu")) {
        let (status, text) = said(&["--target", "wgpu"], "nothing");
        assert_eq!(status, Some(2));
        assert!(text.contains("in a build with the feature `wgpu`"), "{text}");
    }
    let (_, text) = said(&["--target", "sm_120", "--ptx", "8.0"], "nothing");
    assert!(text.contains("sm_120 needs PTX 8.7 at least"), "{text}");
    let (status, text) = said(&["--target", "sm_90", "--ptx", "99.0"], "nothing");
    assert_eq!(status, Some(2));
    assert!(text.contains("there is no PTX 99.0: the newest that Kiln knows is"), "{text}");
    // The program does not run for a file that cannot be made.
    for place in [folder.0.join("no-such-folder/out.kiln"), folder.0.clone()] {
        let mut command = kiln(&["package", "--target", "cpu", "-o", place.to_str().unwrap()], &folder.0);
        let output = itself(command.arg(&program), TEST, "fails");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(&format!("kiln: {}: ", place.display())), "{said}");
    }
    let (status, text) = said(&["--target", "cpu"], "nothing");
    assert_eq!(status, Some(1));
    assert!(text.contains("has compiled no kernel"), "{text}");
    let (status, text) = said(&["--target", "cpu"], "fails");
    assert_eq!(status, Some(1));
    assert!(text.contains("no package was written"), "{text}");
}

#[test]
fn the_cache_is_shown_pruned_and_carried() {
    let folder = Folder::new("cache");
    let [here, there] = ["here", "there"].map(|name| folder.0.join(name));
    let cache = kiln_runtime::DiskCache::at(&here);
    for n in 0..6u8 {
        cache.store(&kiln_runtime::DiskCache::key(&[&[n]]), &vec![n; 1000]);
    }
    let run = |arguments: &[&str], cache: &Path| {
        let output =
            kiln(&[&["cache"], arguments].concat(), cache).env("KILN_CACHE_SIZE", "3MB").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = run(&["stats"], &here);
    assert!(shown.ends_with("6 programs, 6.1 KiB, 0 choices; at most 2.9 MiB\n"), "{shown}");
    let found: Value = serde_json::from_str(&run(&["stats", "--json"], &here)).unwrap();
    assert_eq!((&found["cap"], &found["programs"]), (&3_000_000.into(), &6.into()));
    assert!(run(&["prune", "--unused", "1d"], &here).ends_with("removed 0 programs, 0 B\n"));
    assert!(run(&["prune", "--to", "4200B"], &here).ends_with("removed 2 programs, 2 KiB\n"));
    let file = folder.0.join("carried");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["export", file], &here), "exported 4 programs, 0 choices\n");
    assert_eq!(run(&["import", file], &there), "imported 4 programs, 0 choices\n");
    assert_eq!(kiln_runtime::DiskCache::at(&there).usage(), (4, 4 * 1040));

    let refused = |arguments: &[&str], size: &str| {
        let output =
            kiln(&[&["cache"], arguments].concat(), &here).env("KILN_CACHE_SIZE", size).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = refused(&["stats"], "plenty");
    assert_eq!(status, Some(1));
    assert!(
        text.contains("`plenty` is no number of bytes") && text.contains("KILN_CACHE_SIZE=2GB"),
        "{text}"
    );
    assert_eq!(refused(&["prune"], "1GB").0, Some(2));
    for size in ["plenty", "off"] {
        let (status, text) = refused(&["prune", "--to", size], "1GB");
        assert_eq!(status, Some(2));
        assert!(text.starts_with(&format!("kiln: --to: `{size}` is no number of bytes")), "{text}");
    }
    assert_eq!(refused(&["prune", "--unused", "soon"], "1GB").0, Some(2));
    fs::write(file, b"something else").unwrap();
    let (status, text) = refused(&["import", file], "1GB");
    assert_eq!(status, Some(1));
    assert!(text.contains("carried") && text.contains("it is no Kiln cache"), "{text}");
}
