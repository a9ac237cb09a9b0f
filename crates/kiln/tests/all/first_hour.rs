//! What newcomers write in their first hour and what is right, or is refused by the launch. What
//! the compiler refuses is in `tests/first_hour/` of kiln-macros.

use kiln::prelude::*;

/// The elements of `x` in [`run`]: 1, 2, 3 and so on.
const N: usize = 64;

/// Launches a kernel over 64 threads on the devices that need no GPU; the results are the same.
fn run(launch: impl Fn(&Device, &Tensor<f32, 1>, &mut Tensor<f32, 1>) -> kiln::Result<()>) -> Vec<f32> {
    let result = |name: &str| {
        let device = Device::open(name)?;
        let x: Vec<f32> = (1..=N).map(|i| i as f32).collect();
        let (x, mut y) = (device.tensor(&x, [N])?, device.zeros([N])?);
        launch(&device, &x, &mut y)?;
        y.to_vec()
    };
    let [interp, cpu]: [kiln::Result<Vec<f32>>; 2] = ["interp", "cpu"].map(result);
    let (interp, cpu) = (interp.unwrap(), cpu.unwrap());
    assert_eq!(interp, cpu);
    cpu
}

/// Each element from its index and the value of `x` there.
fn each(value: impl Fn(usize, f32) -> f32) -> Vec<f32> {
    (0..N).map(|i| value(i, (i + 1) as f32)).collect()
}

macro_rules! works {
    ($($name:ident($x:ident, $y:ident) $body:block is $expected:expr;)*) => {$(
        #[test]
        fn $name() {
            #[kernel]
            fn first($x: &Tensor<f32, 1>, $y: &mut Tensor<f32, 1>) $body
            let found = run(|device, x, y| first(x, y).block([32]).grid([2]).launch(device));
            assert_eq!(found, each($expected));
        }
    )*};
}

/// Without `#[device]`, and of values behind references: the methods are those of the values.
fn clipped(values: &[Val<f32>], most: &mut Val<f32>) -> Val<f32> {
    let over = values.iter().map(|v| v.gt(*most)).fold(most.lt(0.0), |any, one| any | one);
    select(over, *most, values[0])
}

works! {
    values_behind_references_compare(x, y) {
        let i = thread_index();
        let mut most = val(9.0);
        y.set(i, clipped(&[x.get(i)], &mut most));
    } is |_, x| x.min(9.0);

    thread_index_compares(x, y) {
        let i = thread_index();
        let n: Val<i64> = 40;
        if i < n {
            y.set(i, x.get(i));
        }
    } is |i, x| if i < 40 { x } else { 0.0 };

    thread_index_compares_with_an_extent(x, y) {
        let i = thread_index();
        if i < x.extent(0) && i >= 3 {
            y.set(i, x.get(i));
        }
    } is |i, x| if i >= 3 { x } else { 0.0 };

    thread_index_equals_a_number(x, y) {
        let i = thread_index();
        if i == 5 || 7 == i {
            y.set(i, x.get(i));
        }
    } is |i, x| if i == 5 || i == 7 { x } else { 0.0 };

    thread_index_adds(x, y) {
        let i = thread_index();
        y.set(i, x.get_or(i + 1, 0.0) + x.get_or(2 * i, 0.0));
    } is |i, x| (if i < 63 { x + 1.0 } else { 0.0 }) + if i < 32 { (2 * i + 1) as f32 } else { 0.0 };

    thread_index_has_the_operators_of_integers(x, y) {
        let i = thread_index();
        let bits = ((i % 4) * 2 + i / 16 - (i & 1)) | (i >> 4);
        y.set(i, bits.cast::<f32>() + x.get(0) * 0.0);
    } is |i, _| (((i % 4) * 2 + i / 16 - (i & 1)) | (i >> 4)) as f32;

    thread_index_casts(x, y) {
        let i = thread_index();
        y.set(i, i.cast::<f32>() + x.get(i));
    } is |i, x| i as f32 + x;

    thread_index_bounds_a_range(x, y) {
        let i = thread_index();
        let mut s: Val<f32> = 0.0;
        for k in 0..i {
            s += x.get(k);
        }
        y.set(i, s);
    } is |i, _| (i * (i + 1) / 2) as f32;

    thread_index_begins_a_range(x, y) {
        let i = thread_index();
        let mut s: Val<f32> = 0.0;
        for k in i..x.extent(0) {
            s += x.get(k);
        }
        for _ in range(i, 8) {
            s += 1000.0;
        }
        y.set(i, s);
    } is |i, _| (64 * 65 / 2 - i * (i + 1) / 2) as f32 + 1000.0 * 8usize.saturating_sub(i) as f32;

    thread_index_in_a_variable(x, y) {
        let i = thread_index();
        let mut k: Val<i64> = i;
        if k > 10 {
            k = i;
            k -= 10;
        }
        y.set(i, x.get(k));
    } is |i, x| if i > 10 { x - 10.0 } else { x };

    thread_index_is_printed(x, y) {
        let i = thread_index();
        if i < 0 {
            device_print!("{}", i);
        }
        y.set(i, x.get(i));
    } is |_, x| x;

    a_length(x, y) {
        let i = thread_index();
        if i < x.len() - 4 && i < y.shape()[0] - 8 {
            y.set(i, x.get(i));
        }
    } is |i, x| if i < 56 { x } else { 0.0 };

    large_literals(x, y) {
        let i = thread_index();
        let mut h: Val<u32> = 0x811C9DC5;
        h ^= i.cast::<u32>() * 0x9E3779B9;
        if h > 0x80000000 {
            h = 0xFFFFFFFF;
        }
        y.set(i, (h >> 8).cast::<f32>() + x.get(0) * 0.0);
    } is |i, _| {
        let h = 0x811C9DC5u32 ^ (i as u32).wrapping_mul(0x9E3779B9);
        ((if h > 0x80000000 { u32::MAX } else { h }) >> 8) as f32
    };

    large_literals_beside_host_numbers(x, y) {
        let seed = 1u64;
        let mixed = (seed * 0x9E3779B97F4A7C15) >> 60;
        y.set(thread_index(), x.get(0) * mixed);
    } is |_, _| (0x9E3779B97F4A7C15u64 >> 60) as f32;

    functions_by_their_path(x, y) {
        let i = thread_index();
        let half = f32::sqrt(0.25f32);
        y.set(i, f32::sqrt(x.get(i)) + f32::max(20.0, x.get(i)) * half + f32::mul_add(x.get(i), 2.0, 1.0));
    } is |_, x| x.sqrt() + x.max(20.0) * 0.5 + (x * 2.0 + 1.0);

    names_of_rust(x, y) {
        let i = thread_index();
        y.set(i, (x.get(i).powf(1.0) - x.get(i)) + (x.get(i).ln() - x.get(i).log()) + x.get(i).mul_add(2.0, 1.0));
    } is |_, x| x * 2.0 + 1.0;

    assertions(x, y) {
        let i = thread_index();
        assert!(x.get(i) > 0.0);
        assert!(i < 64, "more threads than elements");
        assert_eq!(x.get(i), i.cast::<f32>() + 1.0);
        assert_ne!(1 + 1, 3);
        assert!(1 + 1 == 2, "host numbers: {}", 2);
        debug_assert!(x.get(i) < 100.0);
        y.set(i, x.get(i));
    } is |_, x| x;
}

/// The kernel's error, which is to have one problem, with the line that ends in `// <- here`.
fn problem(launch: impl Fn(&Device) -> kiln::Result<()>) -> (u32, String) {
    let error = launch(&Device::open("interp").unwrap()).unwrap_err();
    let text = error.to_string();
    assert_eq!(format!("{error:?}"), text, "what `main` prints is the message");
    let kiln::Error::Kernel { problems, .. } = error else { panic!("{text}") };
    assert_eq!(problems.len(), 1, "{text}");
    let (place, what) = problems[0].split_once(": ").unwrap();
    (place.split(':').nth(1).unwrap().parse().unwrap(), what.to_owned())
}

/// The line of this file that has a marker.
fn line(marker: &str) -> u32 {
    let marker = format!("// <- {marker}");
    let found = include_str!("first_hour.rs").lines().position(|l| l.ends_with(&marker));
    found.map_or(0, |at| at as u32 + 1)
}

macro_rules! refused {
    ($($name:ident($y:ident) $body:block at $marker:literal: $message:literal;)*) => {$(
        #[test]
        fn $name() {
            #[kernel]
            fn first($y: &mut Tensor<f32, 1>) $body
            let (at, what) = problem(|device| {
                first(&mut device.zeros([64])?).block([64]).grid([1]).launch(device)
            });
            assert_eq!((at, what.as_str()), (line($marker), $message));
        }
    )*};
}

refused! {
    host_count(y) {
        let i = thread_index();
        let mut count = 0;
        if y.get(i) > 0.0 {
            count += 1; // <- count
        }
        y.set(i, count);
    } at "count": "a host value is changed under device control flow; make it a device value (`let mut n: Val<i32> = 0`), or \
                   declare it inside the branch or loop";

    fraction_for_an_integer(y) {
        let i = thread_index();
        let k = i * 2.5; // <- fraction
        y.set(i, k.cast::<f32>());
    } at "fraction": "2.5 is not an integer, as i64 requires; choose a number in range or another element type";

    panic_in_a_branch(y) {
        let i = thread_index();
        if y.get(i) < 0.0 {
            panic!("negative"); // <- panic
        }
    } at "panic": "the kernel panicked while it was traced: negative; a panic happens on the host, whatever the \
                   condition around it is on the device; check there with `device_assert!(condition, \"..\")`";

    sum_of_a_thread(y) {
        let i = thread_index();
        y.set(i, y.get(i).sum()); // <- sum
    } at "sum": "`sum` reduces the elements of a tile, and this is a scalar; combine two values with an operator, \
                 such as `a + b`";

    endless_host_loop(y) {
        let i = thread_index();
        let k = 0;
        while k < 10 { // <- endless
            y.set(i, 1.0);
        }
    } at "endless": "this loop did not end after 1048576 iterations on the host; its condition must change, or depend \
                     on a device value";
}

#[test]
fn an_oversized_tile() {
    #[kernel]
    fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        let v = x.load(1 << 21, 0.0); // <- oversized
        y.tile(0, 1).store(v.sum());
    }
    let (at, what) = problem(|device| {
        let x = device.zeros([64])?;
        first(&x, &mut device.zeros([1])?).grid([1]).launch(device)
    });
    assert_eq!(at, line("oversized"));
    assert_eq!(
        what,
        "a tile of shape [2097152] has more than 1048576 elements; a tile is what one program holds: load a part and loop"
    );
}

#[test]
fn shapes_that_differ() {
    #[kernel]
    fn first(y: &mut Tensor<f32, 1>) {
        y.tile(0, 32).store(zeros(64)); // <- shapes
    }
    let (at, what) = problem(|device| first(&mut device.zeros([64])?).grid([1]).launch(device));
    assert_eq!(at, line("shapes"));
    assert_eq!(
        what,
        "a value of shape [64] does not stretch to shape [32]; only extents of 1 and missing leading axes stretch"
    );
}

#[kernel]
fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index(); // <- copied
    y.set(i, x.get(i)); // <- read
}

#[test]
fn a_missing_block() {
    let (at, what) = problem(|device| {
        let x = device.zeros([64])?;
        copied(&x, &mut device.zeros([64])?).grid([1]).launch(device)
    });
    assert_eq!(at, line("copied"));
    assert_eq!(
        what,
        "`thread_index` needs a launch with threads; give the launch a block, as in `.block([256])`"
    );
}

/// The message of a launch that fails for another reason than its kernel.
fn message(launch: impl Fn(&Device) -> kiln::Result<()>) -> String {
    launch(&Device::open("interp").unwrap()).unwrap_err().to_string()
}

#[test]
fn a_missing_grid() {
    let what = message(|device| {
        let x = device.zeros([64])?;
        copied(&x, &mut device.zeros([64])?).block([32]).launch(device)
    });
    assert_eq!(
        what,
        "the grid of `copied` does not follow from its stores: in a kernel over threads it never does (n threads are \
         `n.div_ceil(32)` blocks); give it with `.grid([x, y, z])`"
    );
}

#[test]
fn an_oversized_block() {
    let what = message(|device| {
        let x = device.zeros([64])?;
        copied(&x, &mut device.zeros([64])?).block([2048]).launch(device)
    });
    assert_eq!(what, "cannot launch `copied`: threads per block is 2048, the limit is 1024");
}

#[test]
fn more_threads_than_elements() {
    let what = message(|device| {
        let x = device.zeros([64])?;
        let mut y = device.zeros([64])?;
        copied(&x, &mut y).block([64]).grid([2]).launch(device)?;
        y.to_vec().map(|_| ())
    });
    let place = format!("{}:{}", file!(), line("read"));
    assert!(what.contains(&place) && what.contains("index 64"), "{what}");
}

#[test]
fn tiles_that_overlap() {
    #[kernel]
    fn first(y: &mut Tensor<f32, 1>) {
        y.tile(program_id(0) * 16, 32).store(1.0); // <- overlap
    }
    let (at, what) = problem(|device| first(&mut device.zeros([64])?).grid([2]).launch(device));
    assert_eq!(at, line("overlap"));
    assert!(
        what.starts_with("the programs' stores to `y` may collide") && what.contains("`unsafe`"),
        "{what}"
    );
}

#[test]
fn a_kernel_that_launches_a_kernel() {
    #[kernel]
    fn outer(y: &mut Tensor<f32, 1>) {
        let device = Device::open("interp").unwrap();
        let (a, mut b) = (device.zeros([64]).unwrap(), device.zeros([64]).unwrap());
        let refused = copied(&a, &mut b).block([64]).launch(&device).unwrap_err().to_string();
        assert!(refused.contains("is launched while kernel `outer` is traced"), "{}", refused);
        y.set(thread_index(), 1.0);
    }
    let found = run(|device, _, y| outer(y).block([32]).grid([2]).launch(device));
    assert_eq!(found, each(|_, _| 1.0));
}
