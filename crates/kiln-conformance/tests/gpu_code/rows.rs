//! Vectors of rows are one access each, where facts of tensors say that rows are aligned.

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};

/// Rows of `x` to those of `z`, through shared memory, and in the other order to those of `y`.
#[kernel(crate = kiln_runtime)]
fn copies(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, z: &mut Tensor<f32, 2>) {
    let (row, t) = (thread_id(1), thread_id(0));
    let s = shared::<f32, 2>([4, 32]);
    // SAFETY: each thread has a vector of its own in both, which nobody else reads.
    unsafe {
        s.copy_async((row, t), x, (row, t), 4);
        commit_copies();
        y.row(row).write_vec(t, x.row(3 - row).get_vec::<4>(t));
        wait_copies(0);
        z.row(row).write_vec(t, s.row(row).get_vec::<4>(t));
    }
}

pub fn trial() -> libtest_mimic::Trial {
    libtest_mimic::Trial::test("vectors_of_rows_are_one_access", || check().map_err(|e| e.to_string().into()))
}

fn check() -> Result<()> {
    let device = Device::open("interp")?;
    let target = ptx::Target { compute: (9, 0), ptx: (9, 0) };
    // Of rows whose length is a multiple of a vector, of half of one, and of neither; those of
    // shared memory are.
    for (columns, expected) in [(36, [5, 0, 0]), (38, [1, 8, 0]), (37, [1, 0, 16])] {
        let x = device.zeros::<f32, 2>([4, columns])?;
        let (mut y, mut z) = (device.zeros([4, columns])?, device.zeros([4, columns])?);
        let kernel = copies(&x, &mut y, &mut z).block([8, 4]).ir()?;
        let text = compile_to_ptx(&kernel, target).map_err(kiln_runtime::Error::from)?.text;
        // Behind it is what records faults.
        let body = text.lines().take_while(|line| line.trim_start() != "ret;");
        let of = |width| body.clone().filter(|line| bytes(line) == Some(width)).count();
        let found = [of(16), of(8), of(4)];
        assert_eq!(found, expected, "rows of {columns}\n{text}");
    }
    Ok(())
}

/// The bytes that a line of PTX loads, stores or copies, if it does.
fn bytes(line: &str) -> Option<u32> {
    let line = line.trim_start();
    if line.starts_with("cp.async.c") {
        return [16, 8, 4].into_iter().find(|bytes| line.contains(&format!(", {bytes}, ")));
    }
    let access =
        ["ld.global", "st.global", "ld.shared", "st.shared"].iter().any(|name| line.starts_with(name));
    let lanes = if line.contains(".v4.") {
        4
    } else if line.contains(".v2.") {
        2
    } else {
        1
    };
    access.then_some(4 * lanes)
}
