/// How many steps each number takes to 1.
#[kernel]
fn collatz(x: &Tensor<i64, 1>, y: &mut Tensor<i64, 1>) {
    let i = thread_index();
    let mut n = x.get(i);
    let mut steps = val(0);
    while n > 1 {
        if n % 2 == 0 {
            n /= 2;
        } else {
            n = 3 * n + 1;
        }
        steps += 1;
    }
    y.set(i, steps);
}

/// Names that others hide, names of host constants, of shared memory and of an index of two axes.
#[kernel]
fn hidden(y: &mut Tensor<i32, 2>) {
    let at = thread_index_2d();
    let s = shared::<i32, 1>([8]);
    let t = thread_id(0);
    let scale = 3;
    // SAFETY: each thread writes an element of its own.
    unsafe { s.put(t, t.cast::<i32>() * scale) };
    barrier();
    let v = s.get(t);
    {
        let v = v + 100;
        y.set(at, v);
    }
    let mut last = val(0);
    for k in range(0, 3) {
        last = k.cast::<i32>() + v;
        device_assert!(last < 1000);
    }
    y.set(at, v + 1);
    for two in 0..2 {
        y.set(at, v + two);
    }
}

/// Thread 5 reads past the end.
#[kernel]
fn outside(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let twice = i.get() * 2;
    let v = x.get(twice);
    y.set(i, v);
}
