//! Wrong kernels as users write them, and what the interpreter's sanitizer says of each: what is
//! wrong, where, and who else was there.
//!
//! A report names lines of this file by the comments at their ends.

use kiln::Result;
use kiln::prelude::*;
use std::time::Duration;

/// Runs a wrong kernel; its report must have these parts. `{comment}` stands for the line that ends
/// in this comment.
fn finds(parts: &[&str], run: impl FnOnce(&Device) -> Result<()>) {
    let device = Device::open_apart("interp").unwrap();
    let report = run(&device).and_then(|()| device.synchronize()).expect_err("nothing was found").to_string();
    for part in parts {
        let part = with_lines(part);
        assert!(report.contains(&part), "no `{part}` in: {report}");
    }
}

fn with_lines(part: &str) -> String {
    let Some((before, rest)) = part.split_once('{') else { return part.to_owned() };
    let (comment, after) = rest.split_once('}').unwrap();
    let is_it = |line: &str| line.ends_with(&format!("; // {comment}"));
    let mut lines = include_str!("seeded_bugs.rs").lines().zip(1..).filter(|(line, _)| is_it(line));
    let (_, number) = lines.next().unwrap_or_else(|| panic!("no line ends in `{comment}`"));
    assert!(lines.next().is_none(), "two lines end in `{comment}`");
    format!("{before}seeded_bugs.rs:{number}:{after}")
}

const EIGHT: [f32; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];

fn eight(device: &Device) -> Result<Tensor<f32, 1>> {
    device.tensor(&EIGHT, [8])
}

// ---- Out of bounds

#[kernel]
fn forward_difference(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, x.get(i.get() + 1) - x.get(i)); // after the end
}

#[test]
fn read_after_the_end() {
    let parts =
        ["index 8 out of bounds for extent 8 in `forward_difference`", "{after the end}", "thread [7, 0, 0]"];
    finds(&parts, |d| forward_difference(&eight(d)?, &mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn backward_difference(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, x.get(i) - x.get(i.get() - 1)); // before the start
}

#[test]
fn read_before_the_start() {
    let parts = [
        "index -1 out of bounds for extent 8 in `backward_difference`",
        "{before the start}",
        "thread [0, 0, 0]",
    ];
    finds(&parts, |d| backward_difference(&eight(d)?, &mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn trusted_read(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    // SAFETY: none, which is the mistake.
    let far = unsafe { x.get_unchecked(i.get() * 2) }; // trusted read
    y.set(i, far);
}

#[test]
fn unchecked_read_after_the_end() {
    let parts =
        ["unchecked access outside its view in `trusted_read`", "8", "{trusted read}", "thread [4, 0, 0]"];
    finds(&parts, |d| trusted_read(&eight(d)?, &mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn trusted_write(y: &mut Tensor<f32, 1>) {
    // SAFETY: none, which is the mistake.
    unsafe { y.scatter_unchecked(thread_id(0) - 1, 1.0) }; // trusted write
}

#[test]
fn unchecked_write_before_the_start() {
    let parts =
        ["unchecked access outside its view in `trusted_write`", "-1", "{trusted write}", "thread [0, 0, 0]"];
    finds(&parts, |d| trusted_write(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn short_shared(y: &mut Tensor<f32, 1>) {
    let s = shared::<f32, 1>([8]);
    // SAFETY: each thread writes its own element.
    unsafe { s.put(thread_id(0) + 1, 1.0) }; // shared index
    barrier();
    y.set(thread_index(), s.get(thread_id(0)));
}

#[test]
fn shared_memory_out_of_bounds() {
    let parts =
        ["index 8 out of bounds for extent 8 in `short_shared`", "{shared index}", "thread [7, 0, 0]"];
    finds(&parts, |d| short_shared(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn digit_counts(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let counts = local::<i32>(4);
    for k in 0..4 {
        counts.set(k, 0);
    }
    counts.set(x.get(thread_index()), 1); // local index
    y.set(thread_index(), counts.get(0));
}

#[test]
fn local_array_out_of_bounds() {
    let parts = ["index 4 out of bounds for extent 4 in `digit_counts`", "{local index}", "thread [1, 0, 0]"];
    finds(&parts, |d| {
        digit_counts(&d.tensor(&[3, 4], [2])?, &mut d.zeros([2])?).grid([1]).block([2]).launch(d)
    });
}

#[kernel]
fn looked_up(table: &Tensor<f32, 1>, at: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    let at = at.load([4], 0);
    y.store(table.get(at)); // tile of indices
}

#[test]
fn tile_of_indices_out_of_bounds() {
    let parts = ["index 11 out of bounds for extent 8 in `looked_up`", "{tile of indices}"];
    finds(&parts, |d| {
        looked_up(&eight(d)?, &d.tensor(&[0, 7, 11, 2], [4])?, &mut d.zeros([4])?).grid([1]).launch(d)
    });
}

#[kernel]
fn row_major(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, columns: Val<i32>) {
    let i = thread_index();
    let row: Val<i32> = i.get().cast();
    y.set(i, x.get((row + 3) * columns)); // overflowing product
}

#[test]
fn index_that_overflows() {
    // 3 * 1,000,000,000 is negative as i32.
    let parts = ["index -1294967296 out of bounds for extent 8", "{overflowing product}", "thread [0, 0, 0]"];
    finds(&parts, |d| {
        let zeros = eight(d)?;
        row_major(&zeros, &mut d.zeros([4])?, 1_000_000_000).grid([1]).block([4]).launch(d)
    });
}

// ---- Uninitialized memory

#[kernel]
fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    y.set(thread_index(), x.get(thread_index())); // fresh tensor
}

#[test]
fn uninitialized_global_memory() {
    let parts = ["read of uninitialized memory in `copied`: `x[7]` is read", "{fresh tensor}", "`zeros`"];
    finds(&parts, |d| {
        let (mut x, mut y) = (d.uninit([8])?, d.zeros([8])?);
        all_but_the_last(&eight(d)?, &mut x).grid([1]).block([8]).launch(d)?;
        copied(&x, &mut y).grid([1]).block([8]).launch(d)
    });
}

#[test]
fn tensor_that_nothing_has_written() {
    finds(&["argument `x` of `copied` was never written"], |d| {
        copied(&d.uninit([8])?, &mut d.zeros([8])?).grid([1]).block([8]).launch(d)
    });
}

#[kernel]
fn accumulates_in_shared(y: &mut Tensor<f32, 1>) {
    let (t, sums) = (thread_id(0), shared::<f32, 1>([8])); // fresh shared
    // SAFETY: each thread has its own element.
    unsafe { sums.put(t, sums.get(t) + 1.0) }; // shared before it is written
    barrier();
    y.set(thread_index(), sums.get(t));
}

#[test]
fn uninitialized_shared_memory() {
    let parts = [
        "read of uninitialized memory in `accumulates_in_shared`",
        "element [0] of the shared memory of",
        "{fresh shared}",
        "{shared before it is written}",
    ];
    finds(&parts, |d| accumulates_in_shared(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn accumulates_locally(y: &mut Tensor<f32, 1>) {
    let sums = local::<f32>(4);
    sums.set(1, 2.0);
    y.set(thread_index(), sums.get(thread_id(0))); // local before it is written
}

#[test]
fn uninitialized_local_memory() {
    let parts = [
        "read of uninitialized memory in `accumulates_locally`",
        "element [0] of the local memory of",
        "{local before it is written}",
        "thread [0, 0, 0]",
    ];
    finds(&parts, |d| accumulates_locally(&mut d.zeros([2])?).grid([1]).block([2]).launch(d));
}

#[kernel]
fn all_but_the_last(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    if i.get() < x.extent(0) - 1 {
        y.set(i, x.get(i));
    }
}

#[test]
fn output_that_is_not_written() {
    finds(&["1 of 8", "[7]"], |d| {
        let mut y = d.uninit([8])?;
        all_but_the_last(&eight(d)?, &mut y).grid([1]).block([8]).launch(d)?;
        y.to_vec().map(drop)
    });
}

// ---- Races within a block

#[kernel]
fn everybody_writes(y: &mut Tensor<i64, 1>) {
    let s = shared::<i64, 1>([1]);
    // SAFETY: none, which is the mistake.
    unsafe { s.put(0, thread_id(0)) }; // everybody writes
    barrier();
    y.set(thread_index(), s.get(0));
}

#[test]
fn shared_memory_written_by_two() {
    let parts = [
        "data race in `everybody_writes`: element [0] of the shared memory",
        "is written by thread 1 of block 0 and was written by thread 0 of block 0",
        "{everybody writes}",
    ];
    finds(&parts, |d| everybody_writes(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn neighbors_without_a_barrier(y: &mut Tensor<i64, 1>) {
    let (s, t) = (shared::<i64, 1>([8]), thread_id(0));
    // SAFETY: none: the barrier behind it is missing.
    unsafe { s.put(t, t) }; // own element
    y.set(thread_index(), s.get((t + 1) % 8)); // neighbor's element
}

#[test]
fn missing_barrier() {
    let parts = [
        "element [1] of the shared memory",
        "is read by thread 0 of block 0 and was written by thread 1 of block 0 at",
        "{own element}",
        "{neighbor's element}",
        "put a `barrier()` between the two",
    ];
    finds(&parts, |d| neighbors_without_a_barrier(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn rotates(y: &mut Tensor<i64, 1>) {
    let (s, t) = (shared::<i64, 1>([8]), thread_id(0));
    let mut mine: Val<i64> = t + 0;
    for _round in range(0, 2) {
        // SAFETY: none: in the second round others may still read.
        unsafe { s.put(t, mine) }; // next round
        barrier();
        mine = s.get((t + 1) % 8) + 100; // last round
    }
    y.set(thread_index(), mine);
}

#[test]
fn missing_barrier_at_the_end_of_a_loop() {
    let parts = [
        "data race in `rotates`: element [0] of the shared memory",
        "is written by thread 0 of block 0 and was read by thread 7 of block 0 at",
        "{next round}",
        "{last round}",
    ];
    finds(&parts, |d| rotates(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn counts(y: &mut Tensor<u32, 1>) {
    let (s, t) = (shared::<u32, 1>([1]), thread_id(0));
    if t == 0 {
        // SAFETY: none: the barrier behind it is missing.
        unsafe { s.put(0, 0) }; // plain store
    }
    s.atomic_add(0, 1); // atomic
    barrier();
    y.set(thread_index(), s.get(0));
}

#[test]
fn atomics_mixed_with_a_store() {
    let parts = [
        "data race in `counts`",
        "is read by thread 1 of block 0 and was written by thread 0 of block 0 at",
        "{plain store}",
        "{atomic}",
    ];
    finds(&parts, |d| counts(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

// ---- Races between blocks

#[kernel]
fn total(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let sum = x.tile(program_id(0) * 4, 4).load(0.0).sum();
    // SAFETY: none, which is the mistake.
    unsafe { y.write(0, y.get(0) + sum) }; // total
}

#[test]
fn sum_of_two_programs() {
    let parts = [
        "data race in `total`: `y[0]` is read by block 1 and was written by block 0 at",
        "{total}",
        "atomic",
    ];
    finds(&parts, |d| total(&eight(d)?, &mut d.zeros([1])?).grid([2]).launch(d));
}

#[kernel]
fn stencil_in_place(x: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let left = x.get_or(i.get() - 1, 0.0); // left neighbor
    barrier();
    x.set(i, x.get(i) + left); // in place
}

#[test]
fn neighbor_of_another_block() {
    let parts = [
        "data race in `stencil_in_place`: `x[3]` is read by thread 0 of block 1 and was written by thread 3 of block 0",
        "{left neighbor}",
        "{in place}",
    ];
    finds(&parts, |d| stencil_in_place(&mut eight(d)?).grid([2]).block([4]).launch(d));
}

#[kernel]
fn overlapping_windows(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 3;
    let window = x.tile(at, 4).load(0.0) * (program_id(0) + 1).cast::<f32>();
    // SAFETY: none, which is the mistake.
    unsafe { y.tile(at, 4).store_overlapping(window) }; // window
}

#[test]
fn overlapping_tiles() {
    let parts = [
        "data race in `overlapping_windows`: `y[3]` is written by block 1 and was written by block 0 at",
        "{window}",
    ];
    finds(&parts, |d| overlapping_windows(&eight(d)?, &mut d.zeros([8])?).grid([2]).launch(d));
}

#[kernel]
fn rows_and_columns(y: &mut Tensor<i64, 2>) {
    let pid = program_id(0);
    if pid == 0 {
        // SAFETY: none, which is the mistake.
        unsafe { y.row(2).tile(0, 4).store_overlapping(full([4], 1)) }; // as a row
    } else {
        // SAFETY: none, which is the mistake.
        unsafe { y.col(1).tile(0, 4).store_overlapping(full([4], 2)) }; // as a column
    }
}

#[test]
fn one_tensor_by_two_layouts() {
    let parts = [
        "data race in `rows_and_columns`: `y[2, 1]` is written by block 1 and was written by block 0 at",
        "{as a row}",
        "{as a column}",
    ];
    finds(&parts, |d| rows_and_columns(&mut d.zeros([4, 4])?).grid([2]).launch(d));
}

// ---- Threads that part

#[kernel]
fn half_a_warp_shuffles(y: &mut Tensor<i64, 1>) {
    let t = thread_id(0);
    let mut sum: Val<i64> = t + 0;
    if t < 16 {
        sum += shuffle_xor(sum, 8); // half of a warp
    }
    y.set(thread_index(), sum);
}

#[test]
fn divergent_shuffle() {
    let parts =
        ["divergent threads in `half_a_warp_shuffles`", "16 of the 32 threads of warp 0", "{half of a warp}"];
    finds(&parts, |d| half_a_warp_shuffles(&mut d.zeros([32])?).grid([1]).block([32]).launch(d));
}

#[kernel]
fn votes_in_a_loop(x: &Tensor<i64, 1>, y: &mut Tensor<i64, 1>) {
    let (i, mut rounds) = (thread_index(), val(0i64));
    while rounds < x.get(i) {
        let all = vote_all(x.get(i) > 1); // vote of those left
        rounds += select(all, 1, 1);
    }
    y.set(i, rounds);
}

#[test]
fn divergent_vote() {
    let parts = ["divergent threads in `votes_in_a_loop`", "{vote of those left}"];
    finds(&parts, |d| {
        let rounds: Vec<i64> = (0..32).map(|n| n % 3 + 1).collect();
        votes_in_a_loop(&d.tensor(&rounds, [32])?, &mut d.zeros([32])?).grid([1]).block([32]).launch(d)
    });
}

#[kernel]
fn barrier_in_a_branch(y: &mut Tensor<i64, 1>) {
    if thread_id(0) < 5 {
        barrier(); // barrier of five
    }
    y.set(thread_index(), 1);
}

#[test]
fn divergent_barrier() {
    let parts = ["barrier", "{barrier of five}"];
    finds(&parts, |d| barrier_in_a_branch(&mut d.zeros([8])?).grid([1]).block([8]).launch(d));
}

#[kernel]
fn barrier_behind_a_break(x: &Tensor<i64, 1>, y: &mut Tensor<i64, 1>) {
    let i = thread_index();
    for round in range(0, 4) {
        if round >= x.get(i) {
            break;
        }
        barrier(); // barrier of those left
    }
    y.set(i, 1);
}

#[test]
fn barrier_in_a_loop_that_some_have_left() {
    let parts = ["barrier", "{barrier of those left}"];
    finds(&parts, |d| {
        barrier_behind_a_break(&d.tensor(&[1, 2, 3, 4], [4])?, &mut d.zeros([4])?)
            .grid([1])
            .block([4])
            .launch(d)
    });
}

// ---- Others

#[kernel]
fn quads(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    // SAFETY: none, which is the mistake.
    let [a, _, _, _] = unsafe { x.get_quad_unchecked(thread_id(0) * 2) }; // quad
    y.set(thread_index(), a);
}

#[test]
fn misaligned_vector() {
    let parts = ["misaligned access in `quads`", "`x[2]`", "{quad}", "thread [1, 0, 0]"];
    finds(&parts, |d| quads(&d.tensor(&[7; 8], [8])?, &mut d.zeros([2])?).grid([1]).block([2]).launch(d));
}

#[kernel]
fn ratio(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    y.set(i, 100 / x.get(i)); // ratio
}

#[test]
fn division_by_zero() {
    let parts = ["integer division by zero in `ratio`", "{ratio}", "thread [2, 0, 0]"];
    finds(&parts, |d| {
        ratio(&d.tensor(&[5, 2, 0, 1], [4])?, &mut d.zeros([4])?).grid([1]).block([4]).launch(d)
    });
}

#[kernel]
fn waits_for_itself(flag: &mut Tensor<u32, 1>) {
    while flag.get_ordered(0, Order::Acquire, Scope::Device) == 0 {} // spin
    flag.set(thread_index(), 2);
}

#[test]
fn wait_that_never_ends() {
    finds(&["`waits_for_itself` ran longer than its limit of 50ms, in a loop"], |d| {
        d.set_launch_limit(Some(Duration::from_millis(50)))?;
        waits_for_itself(&mut d.zeros([1])?).grid([1]).block([1]).launch(d)
    });
}

// ---- What looks alike and is right

#[kernel]
fn neighbors(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let (s, t) = (shared::<f32, 1>([8]), thread_id(0));
    // SAFETY: each thread writes its own element, and a barrier comes before others read it.
    unsafe { s.put(t, x.get(thread_index())) };
    barrier();
    let sum = s.get(t) + s.get((t + 1) % 8);
    barrier();
    // SAFETY: as above; the barrier stands behind all reads.
    unsafe { s.put((t + 1) % 8, sum) };
    barrier();
    y.set(thread_index(), s.get(t));
}

#[test]
fn right_kernels_have_no_report() {
    let device = Device::open_apart("interp").unwrap();
    let run = || -> Result<Vec<f32>> {
        let mut y = device.uninit([16])?;
        let x = device.tensor(&[EIGHT, EIGHT].concat(), [16])?;
        neighbors(&x, &mut y).grid([2]).block([8]).launch(&device)?;
        y.to_vec()
    };
    let sums = [9.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];
    assert_eq!(run().unwrap(), [sums, sums].concat());
}
