//! Packages: kernels that come from them compute what they should, and what does not fit is refused
//! by name.

use kiln_backend::{Backend, PackageTarget};
use kiln_cpu::CpuBackend;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, Error, Package, PackageBuilder, PackageStats, ProgramSource, Tensor};
use proptest::prelude::*;
use std::sync::LazyLock;

/// Softmax of rows.
#[kernel(crate = kiln_runtime)]
fn softmax_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, columns: usize) {
    let (at, shape) = ((program_id(0), 0), (1, columns));
    let row = x.tile(at, shape).load(f32::NEG_INFINITY);
    let e = (row - row.max_axis(1).expand(1)).exp();
    y.tile(at, shape).store(e / e.sum_axis(1).expand(1));
}

/// A product of matrices.
#[kernel(crate = kiln_runtime)]
fn product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    let (m, n, k) = (16, 32, 8);
    let (row, column) = (program_id(0) * m, program_id(1) * n);
    let mut sum = zeros::<f32>((m, n));
    for step in range_step(0, a.extent(1), k) {
        let left = a.tile((row, step), (m, k)).load(0.0);
        let right = b.tile((step, column), (k, n)).load(0.0);
        sum = dot_acc(left, right, sum);
    }
    c.tile((row, column), (m, n)).store(sum);
}

#[kernel(crate = kiln_runtime)]
fn checked(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, x.get(i + 1));
}

fn cpu() -> Device {
    Device::with_backend(Box::new(CpuBackend::with_threads(2)), DiskCache::none())
}

fn random(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 * 4.0 - 2.0
    };
    (0..n).map(|_| next()).collect()
}

fn softmax_on(device: &Device, (rows, columns): (usize, usize), seed: u64) -> kiln_runtime::Result<()> {
    let x = random(rows * columns, seed);
    let mut y = device.tensor(&vec![f32::NAN; rows * columns], [rows, columns])?;
    let width = columns.next_power_of_two().max(1);
    softmax_rows(&device.tensor(&x, [rows, columns])?, &mut y, width).launch(device)?;
    for (row, found) in x.chunks(columns).zip(y.to_vec()?.chunks(columns)) {
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let terms: Vec<f64> = row.iter().map(|&v| (f64::from(v) - f64::from(greatest)).exp()).collect();
        let sum: f64 = terms.iter().sum();
        for (term, &value) in terms.iter().zip(found) {
            assert!((term / sum - f64::from(value)).abs() <= 1e-6, "{value} for {}", term / sum);
        }
    }
    Ok(())
}

fn product_on(device: &Device, (m, n, k): (usize, usize, usize), seed: u64) -> kiln_runtime::Result<()> {
    let (a, b) = (random(m * k, seed), random(k * n, seed + 1));
    let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n])?;
    product(&device.tensor(&a, [m, k])?, &device.tensor(&b, [k, n])?, &mut c).launch(device)?;
    for (i, &value) in c.to_vec()?.iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let terms = (0..k).map(|t| f64::from(a[row * k + t]) * f64::from(b[t * n + column]));
        let expected: f64 = terms.sum();
        assert!((expected - f64::from(value)).abs() <= 1e-5 * (k as f64 + 1.0), "{value} for {expected}");
    }
    Ok(())
}

/// A package of these kernels for the cpu, with what is done to its target.
fn package_of(kernels: &[kiln_ir::Kernel], change: impl Fn(&mut PackageTarget)) -> Vec<u8> {
    let cpu: &dyn Backend = &CpuBackend::with_threads(1);
    let mut target = cpu.need_artifacts().unwrap().package_target().unwrap();
    change(&mut target);
    let mut builder = PackageBuilder::default();
    for kernel in kernels {
        builder.add(kernel, &target, &cpu.compile(kernel).unwrap().artifact.unwrap());
    }
    builder.finish()
}

/// The kernels of the tests, specialized to odd extents.
fn kernels() -> Vec<kiln_ir::Kernel> {
    let device = cpu();
    let matrix = |m, n| device.zeros::<f32, 2>([m, n]).unwrap();
    vec![
        softmax_rows(&matrix(3, 37), &mut matrix(3, 37), 64).ir().unwrap(),
        product(&matrix(33, 17), &matrix(17, 35), &mut matrix(33, 35)).ir().unwrap(),
    ]
}

static PACKAGE: LazyLock<Vec<u8>> = LazyLock::new(|| package_of(&kernels(), |_| {}));

/// # Safety
/// As of `Device::load_package_bytes`: these were made here, or do not have the right digest.
unsafe fn load(device: &Device, bytes: Vec<u8>) -> kiln_runtime::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { device.load_package_bytes(bytes) }
}

#[test]
fn kernels_of_a_package_are_right_and_not_compiled() {
    let device = cpu();
    // SAFETY: made here.
    unsafe { load(&device, PACKAGE.clone()) }.unwrap();
    device.require_packages(true);
    softmax_on(&device, (3, 37), 1).unwrap();
    product_on(&device, (33, 35, 17), 2).unwrap();
    // Of the same kind: odd extents.
    softmax_on(&device, (5, 61), 3).unwrap();
    product_on(&device, (3, 5, 7), 4).unwrap();
    assert_eq!(device.package_stats(), PackageStats { programs: 2, loaded: 2, ..PackageStats::default() });
    let builds = device.programs().builds();
    assert!(builds.iter().all(|b| b.source == ProgramSource::Package && b.stages.is_none()), "{builds:?}");
}

#[test]
fn a_kernel_that_is_not_in_it_is_compiled_or_refused() {
    let device = cpu();
    // SAFETY: made here.
    unsafe { load(&device, PACKAGE.clone()) }.unwrap();
    // Extents that are multiples of 16 make another specialization.
    product_on(&device, (32, 32, 16), 6).unwrap();
    assert_eq!(device.programs().builds()[0].source, ProgramSource::Compiler);
    assert_eq!((device.package_stats().loaded, device.package_stats().missing), (0, 1));
    device.require_packages(true);
    let error = softmax_on(&device, (4, 64), 7).unwrap_err();
    assert!(matches!(error, Error::NotPackaged { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("`softmax_rows` is in no package of cpu"), "{text}");
    softmax_on(&device, (3, 37), 8).unwrap();
    device.require_packages(false);
    softmax_on(&device, (4, 64), 9).unwrap();
}

/// A package that was made from another run would help none of the first two.
#[test]
fn why_a_kernel_is_in_no_package_is_said() {
    let said = |device: &Device| {
        device.require_packages(true);
        softmax_on(device, (4, 64), 7).unwrap_err().to_string()
    };
    for name in ["interp", "interp:fast"] {
        let text = said(&Device::open_apart(name).unwrap());
        assert!(text.contains(&format!("in no package of {name}, ")), "{text}");
        assert!(text.contains("this device takes no packages") && !text.contains("same types"), "{text}");
    }
    let device = cpu();
    let text = said(&device);
    assert!(text.contains("no package with programs for this device is loaded"), "{text}");
    // SAFETY: made here.
    unsafe { load(&device, PACKAGE.clone()) }.unwrap();
    let text = said(&device);
    assert!(text.contains("make the package from a run") && text.contains("host values"), "{text}");
}

#[test]
fn what_was_made_for_something_else_is_refused_by_name() {
    let refusal = |change: &dyn Fn(&mut PackageTarget)| {
        let device = cpu();
        // SAFETY: made here.
        let error = unsafe { load(&device, package_of(&kernels(), change)) }.unwrap_err();
        assert!(matches!(error, Error::Package { .. }), "{error}");
        error.to_string()
    };
    let text = refusal(&|target| target.name = "sm_90".into());
    assert!(text.contains("it is for sm_90, and `cpu` is cpu"), "{text}");
    let text = refusal(&|target| target.needs = "has_abacus".into());
    assert!(text.contains("needs has_abacus"), "{text}");
    let text = refusal(&|target| target.maker = "kiln-cpu 0.0.1".into());
    assert!(text.contains("was made by kiln-cpu 0.0.1, and this program has kiln-cpu"), "{text}");
    let interp = Device::open_apart("interp").unwrap();
    // SAFETY: made here.
    let text = unsafe { load(&interp, PACKAGE.clone()) }.unwrap_err().to_string();
    assert!(text.contains("`interp` is a device that takes no packages"), "{text}");
    // SAFETY: there is none.
    let error = unsafe { cpu().load_package("no/such/package") }.unwrap_err();
    assert!(matches!(error, Error::File { .. }) && error.to_string().contains("no/such/package"), "{error}");
}

/// The program of a package with a wrong kernel's code in it is refused by the backend: what was
/// written under one version's name is no code of another.
#[test]
fn code_that_the_device_refuses_is_compiled_anew_or_refused() {
    let cpu_backend: &dyn Backend = &CpuBackend::with_threads(1);
    let target = cpu_backend.need_artifacts().unwrap().package_target().unwrap();
    let mut builder = PackageBuilder::default();
    for kernel in kernels() {
        builder.add(&kernel, &target, b"no code");
    }
    let device = cpu();
    // SAFETY: the backend refuses what is no code of its own.
    unsafe { load(&device, builder.finish()) }.unwrap();
    softmax_on(&device, (3, 37), 10).unwrap();
    assert_eq!((device.package_stats().loaded, device.package_stats().refused), (0, 1));
    device.require_packages(true);
    let text = product_on(&device, (33, 35, 17), 11).unwrap_err().to_string();
    assert!(text.contains("its program of kernel `product` cannot be loaded"), "{text}");
}

#[test]
fn faults_of_packaged_kernels_name_their_line() {
    let fault = |device: &Device| {
        let x = device.tensor(&[1.0f32; 7], [7]).unwrap();
        let mut y = device.zeros([7]).unwrap();
        checked(&x, &mut y).grid([1]).block([7]).launch(device).unwrap();
        device.synchronize().unwrap_err().to_string()
    };
    let compiled = fault(&cpu());
    let x = cpu().tensor(&[1.0f32; 7], [7]).unwrap();
    let mut y = cpu().zeros([7]).unwrap();
    let kernel = checked(&x, &mut y).grid([1]).block([7]).ir().unwrap();
    // As if the source had moved since the package was made.
    let earlier = format!("{kernel:#}").lines().map(moved).collect::<Vec<_>>().join("\n");
    let earlier = kiln_ir::parse(&earlier).unwrap();
    assert_ne!(format!("{kernel:#}"), format!("{earlier:#}"));
    assert_eq!(kernel.to_string(), earlier.to_string());
    let device = cpu();
    // SAFETY: made here.
    unsafe { load(&device, package_of(&[earlier], |_| {})) }.unwrap();
    device.require_packages(true);
    assert_eq!(fault(&device), compiled);
    assert!(compiled.contains("package.rs:"), "{compiled}");
}

/// A line of IR text whose place is 100 lines further down.
fn moved(line: &str) -> String {
    let Some((op, place)) = line.rsplit_once(" @") else { return line.to_owned() };
    let mut parts = place.splitn(3, ':');
    let (Some(file), Some(number), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return line.to_owned();
    };
    let Ok(number) = number.parse::<u32>() else { return line.to_owned() };
    format!("{op} @{file}:{}:{rest}", number + 100)
}

#[test]
fn a_package_lists_what_it_has() {
    let package = Package::from_bytes(PACKAGE.clone()).unwrap();
    assert_eq!(package.len(), 2);
    assert_eq!(package.kernels().collect::<Vec<_>>(), [("softmax_rows", "cpu"), ("product", "cpu")]);
    let [target] = package.targets()[..] else { panic!("one target") };
    assert!(target.maker.starts_with("kiln-cpu ") && !target.needs.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Damage of any kind is refused, whole: nothing of the file is loaded.
    #[test]
    fn damaged_packages_never_load(
        at in any::<prop::sample::Index>(),
        length in 0usize..40,
        with in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = PACKAGE.clone();
        let start = at.index(bytes.len() + 1);
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, with);
        prop_assume!(bytes != *PACKAGE);
        let device = cpu();
        // SAFETY: it does not have the right digest.
        let outcome = unsafe { load(&device, bytes) };
        prop_assert!(matches!(outcome, Err(Error::Package { .. })), "{outcome:?}");
        prop_assert_eq!(device.package_stats(), PackageStats::default());
    }
}
