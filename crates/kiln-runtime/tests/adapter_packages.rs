//! Packages for adapters of Vulkan: kernels that come from them compute what they should, and what
//! does not fit is refused by name. Without an adapter the tests are counted as ignored.

use kiln_backend::{Backend, PackageTarget};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, Error, Package, PackageBuilder, ProgramSource, Tensor};
use kiln_wgpu::Wgpu;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What is done to the target of a package.
type Change<'a> = &'a dyn Fn(&mut PackageTarget);

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("kernels_of_a_package_are_right_and_not_compiled", kernels_of_a_package_are_right_and_not_compiled),
    ("a_kernel_that_is_not_in_it_is_compiled_or_refused", a_kernel_that_is_not_in_it_is_compiled_or_refused),
    (
        "what_was_made_for_something_else_is_refused_by_name",
        what_was_made_for_something_else_is_refused_by_name,
    ),
    ("faults_of_packaged_kernels_name_their_line", faults_of_packaged_kernels_name_their_line),
    ("damaged_packages_never_load", damaged_packages_never_load),
];

fn main() -> ExitCode {
    let missing = Wgpu::open("wgpu:vulkan").is_err();
    if missing {
        eprintln!("no Vulkan adapter: install Mesa's CPU driver (mesa-vulkan-drivers) to run these tests");
    }
    let trial = |&(name, test): &Test| {
        Trial::test(name, move || test().map_err(|error| error.to_string().into())).with_ignored_flag(missing)
    };
    libtest_mimic::run(&Arguments::from_args(), TESTS.iter().map(trial).collect()).exit_code()
}

/// y[i] = the sum of x[i, j] * (j + 1), rows of any length.
#[kernel(crate = kiln_runtime)]
fn weighted(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, block: usize) {
    let row = program_id(0);
    let values = x.row(row).load(block, 0.0);
    let weights = (iota::<i32>(block) + 1).cast::<f32>();
    y.tile(row, 1).store((values * weights).sum().reshape(1));
}

#[kernel(crate = kiln_runtime)]
fn checked(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, x.get(i + 1));
}

fn adapter() -> Result<Device, kiln_backend::Error> {
    Ok(Device::with_backend(Box::new(Wgpu::open("wgpu:vulkan")?), DiskCache::none()))
}

fn weighted_on(device: &Device, (rows, columns): (usize, usize)) -> kiln_runtime::Result<()> {
    let x: Vec<f32> = (0..rows * columns).map(|i| ((i * 37 + 11) % 64) as f32 * 0.25 - 7.0).collect();
    let mut y = device.tensor(&vec![f32::NAN; rows], [rows])?;
    weighted(&device.tensor(&x, [rows, columns])?, &mut y, 64).grid([rows as u32]).launch(device)?;
    for (row, found) in x.chunks(columns).zip(y.to_vec()?) {
        let expected: f64 = row.iter().zip(1..).map(|(&x, j)| f64::from(x) * f64::from(j)).sum();
        assert!((expected - f64::from(found)).abs() <= 1e-2, "{found} for {expected}");
    }
    Ok(())
}

/// The kernels of the tests, specialized to odd extents.
fn kernels(device: &Device) -> kiln_runtime::Result<Vec<kiln_ir::Kernel>> {
    let (x, mut y) = (device.zeros::<f32, 2>([3, 37])?, device.zeros::<f32, 1>([3])?);
    let weighted = weighted(&x, &mut y, 64).grid([3]).ir()?;
    let (x, mut y) = (device.zeros::<f32, 1>([7])?, device.zeros::<f32, 1>([7])?);
    Ok(vec![weighted, checked(&x, &mut y).grid([1]).block([7]).ir()?])
}

/// A package of them, made without the device that loads it.
fn package(change: Change<'_>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let wgpu = Wgpu::open("wgpu:vulkan")?;
    let mut target = (&wgpu as &dyn Backend).need_artifacts()?.package_target().ok_or("no packages")?;
    change(&mut target);
    let mut builder = PackageBuilder::default();
    for kernel in kernels(&adapter()?)? {
        builder.add(&kernel, &target, &wgpu.compile_for_package(&kernel)?);
    }
    Ok(builder.finish())
}

fn load(device: &Device, bytes: Vec<u8>) -> kiln_runtime::Result<()> {
    // SAFETY: these were made here, or do not have the right digest.
    unsafe { device.load_package_bytes(bytes) }
}

fn kernels_of_a_package_are_right_and_not_compiled() -> Outcome {
    let device = adapter()?;
    load(&device, package(&|_| {})?)?;
    device.require_packages(true);
    for shape in [(3, 37), (5, 61), (7, 33), (71, 3)] {
        weighted_on(&device, shape)?;
    }
    let stats = device.package_stats();
    assert_eq!((stats.programs, stats.loaded, stats.missing, stats.refused), (2, 1, 0, 0));
    let builds = device.programs().builds();
    assert!(builds.iter().all(|b| b.source == ProgramSource::Package && b.stages.is_none()), "{builds:?}");
    Ok(())
}

fn a_kernel_that_is_not_in_it_is_compiled_or_refused() -> Outcome {
    let device = adapter()?;
    load(&device, package(&|_| {})?)?;
    // Extents that are multiples of 16 make another specialization.
    weighted_on(&device, (16, 48))?;
    assert_eq!(device.programs().builds()[0].source, ProgramSource::Compiler);
    assert_eq!((device.package_stats().loaded, device.package_stats().missing), (0, 1));
    device.require_packages(true);
    // The same once more is there; with another block it is not.
    let (x, mut y) = (device.zeros::<f32, 2>([3, 37])?, device.zeros::<f32, 1>([3])?);
    let Err(error) = weighted(&x, &mut y, 128).grid([3]).launch(&device) else {
        return Err("launched".into());
    };
    assert!(matches!(error, Error::NotPackaged { .. }), "{error}");
    weighted_on(&device, (3, 37))?;
    Ok(())
}

fn what_was_made_for_something_else_is_refused_by_name() -> Outcome {
    let refusal = |change: Change<'_>| -> Result<String, Box<dyn std::error::Error>> {
        match load(&adapter()?, package(change)?) {
            Err(error @ Error::Package { .. }) => Ok(error.to_string()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let text = refusal(&|target| target.name = "cpu".into())?;
    assert!(text.contains("it is for cpu, and `wgpu:"), "{text}");
    // What both have is not named.
    let text = refusal(&|target| target.needs = target.needs.replace("subgroups of ", "subgroups of 9"))?;
    assert!(text.contains("its code for wgpu needs subgroups of 9"), "{text}");
    assert!(text.contains(" has subgroups of ") && !text.contains("threads"), "{text}");
    let text = refusal(&|target| target.maker = "kiln-wgpu 0.0.1".into())?;
    assert!(text.contains("was made by kiln-wgpu 0.0.1, and this program has kiln-wgpu "), "{text}");
    let cpu = Device::open_apart("cpu")?;
    let text = load(&cpu, package(&|_| {})?).err().ok_or("the cpu takes it")?.to_string();
    assert!(text.contains("it is for wgpu, and `cpu` is cpu"), "{text}");
    Ok(())
}

fn faults_of_packaged_kernels_name_their_line() -> Outcome {
    let fault = |device: &Device| -> Result<String, Box<dyn std::error::Error>> {
        let x = device.tensor(&[1.0f32; 7], [7])?;
        let mut y = device.zeros([7])?;
        checked(&x, &mut y).grid([1]).block([7]).launch(device)?;
        Ok(device.synchronize().err().ok_or("no fault")?.to_string())
    };
    let compiled = fault(&adapter()?)?;
    let device = adapter()?;
    load(&device, package(&|_| {})?)?;
    device.require_packages(true);
    assert_eq!(fault(&device)?, compiled);
    assert!(compiled.contains("adapter_packages.rs:"), "{compiled}");
    Ok(())
}

/// A damaged file is refused, whole; so is code that is none of a right digest.
fn damaged_packages_never_load() -> Outcome {
    let (device, whole) = (adapter()?, package(&|_| {})?);
    let mut state = 1u64;
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (state >> 33) as usize % whole.len();
        let mut bytes = whole.clone();
        match state >> 62 {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 1 + at % 40).min(whole.len()))),
            _ => bytes[at] ^= 1 << (state >> 58 & 7),
        }
        let outcome = load(&device, bytes);
        assert!(matches!(outcome, Err(Error::Package { .. })), "{outcome:?}");
    }
    assert_eq!(device.package_stats().programs, 0);
    assert!(Package::from_bytes(whole)?.len() == 2);

    let wgpu = Wgpu::open("wgpu:vulkan")?;
    let target = (&wgpu as &dyn Backend).need_artifacts()?.package_target().ok_or("no packages")?;
    let mut builder = PackageBuilder::default();
    for kernel in kernels(&device)? {
        builder.add(&kernel, &target, b"no code");
    }
    load(&device, builder.finish())?;
    weighted_on(&device, (3, 37))?;
    assert_eq!((device.package_stats().loaded, device.package_stats().refused), (0, 1));
    Ok(())
}
