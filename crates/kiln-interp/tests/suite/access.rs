//! Memory through views: boxes, gathers, scatters, atomics.

use crate::harness::*;
use kiln_ir::*;

/// Copies a 3 by 4 box at (`row`, `column`) of a 5 by 7 matrix.
fn boxed(row: i64, column: i64) -> Vec<i32> {
    let params =
        [P::View(Scalar::I32, 2), P::View(Scalar::I32, 2), P::Scalar(Scalar::I64), P::Scalar(Scalar::I64)];
    let kernel = tiles(&params, |b, p| {
        let padding = b.i32(-9);
        let tile = b.load(p[0], &[p[2], p[3]], padding, Shape::new(&[3, 4]), Reuse::Streaming);
        let zero = b.index(0);
        b.store(p[1], &[zero, zero], tile, Reuse::Normal, true);
    });
    let host = Host::new();
    let from = host.buffer(&(0..35).collect::<Vec<i32>>(), &[5, 7]);
    let to = host.uninit(48, &[3, 4]);
    let args = [Arg::Buffer(&from), Arg::Buffer(&to), Arg::Bits(row as u64), Arg::Bits(column as u64)];
    host.run(&kernel, [1; 3], &args).unwrap();
    host.read(&to)
}

#[test]
fn loads_pad_outside_the_view() {
    for (row, column) in
        [(0, 0), (1, 3), (3, 5), (-2, -1), (4, 6), (5, 0), (0, 7), (-3, 0), (i64::MAX, i64::MIN)]
    {
        let want: Vec<i32> = (0..12)
            .map(|i| {
                let (r, c) = (i128::from(row) + i / 4, i128::from(column) + i % 4);
                if (0..5).contains(&r) && (0..7).contains(&c) { (r * 7 + c) as i32 } else { -9 }
            })
            .collect();
        assert_eq!(boxed(row, column), want, "at {row}, {column}");
    }
}

#[test]
fn stores_drop_outside_the_view() {
    let params = [P::View(Scalar::I32, 2), P::Scalar(Scalar::I64), P::Scalar(Scalar::I64)];
    let kernel = tiles(&params, |b, p| {
        let iota = b.iota(Scalar::I32, 12);
        let tile = b.reshape(iota, Shape::new(&[3, 4]));
        b.store(p[0], &[p[1], p[2]], tile, Reuse::Normal, true);
    });
    let host = Host::new();
    for (row, column) in [(0i64, 0i64), (3, 5), (-1, -2), (5, 0), (0, -4)] {
        let to = host.buffer(&[-1i32; 35], &[5, 7]);
        host.run(&kernel, [1; 3], &[Arg::Buffer(&to), Arg::Bits(row as u64), Arg::Bits(column as u64)])
            .unwrap();
        let mut want = [-1; 35];
        for i in 0..12 {
            let (r, c) = (row + i / 4, column + i % 4);
            if (0..5).contains(&r) && (0..7).contains(&c) {
                want[(r * 7 + c) as usize] = i as i32;
            }
        }
        assert_eq!(host.read::<i32>(&to), want, "at {row}, {column}");
    }
}

#[test]
fn strides_may_be_any() {
    // The transpose of a 2 by 3 matrix, then its rows backwards.
    let kernel = tiles(&[P::View(Scalar::F64, 2), P::View(Scalar::F64, 2)], |b, p| {
        let zero = b.index(0);
        let padding = b.constant(Literal::zero(Scalar::F64));
        let tile = b.load(p[0], &[zero, zero], padding, Shape::new(&[3, 2]), Reuse::Normal);
        b.store(p[1], &[zero, zero], tile, Reuse::Normal, true);
        let extent = b.extent(p[0], 1);
        let stride = b.stride(p[0], 1);
        let sum = b.binary(BinaryOp::Add, extent, stride);
        let sum = b.cast(sum, Scalar::F64);
        let tile = b.broadcast(sum, Shape::new(&[1, 1]));
        let three = b.index(3);
        b.store(p[1], &[three, zero], tile, Reuse::Normal, true);
    });
    let host = Host::new();
    let from = host.vector(&[0.0f64, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let to = host.buffer(&[9.0f64; 8], &[4, 2]);
    host.run(&kernel, [1; 3], &[Arg::View(&from, vec![3, 2], vec![1, 3]), Arg::Buffer(&to)]).unwrap();
    assert_eq!(host.read::<f64>(&to), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 5.0, 9.0]);
}

#[test]
fn nothing_lies_inside_an_empty_view() {
    let kernel =
        tiles(&[P::View(Scalar::I32, 1), P::View(Scalar::I32, 1), P::Scalar(Scalar::I64)], |b, p| {
            let padding = b.i32(4);
            let tile = b.load(p[0], &[p[2]], padding, Shape::new(&[3]), Reuse::Normal);
            b.store(p[0], &[p[2]], tile, Reuse::Normal, true);
            let zero = b.index(0);
            b.store(p[1], &[zero], tile, Reuse::Normal, true);
        });
    let host = Host::new();
    let (data, out) = (host.vector(&[1, 2, 3i32]), host.uninit(12, &[3]));
    for extent in [0, -5] {
        for at in [0i64, 1, -1, -20] {
            let view = Arg::View(&data, vec![extent], vec![1]);
            host.run(&kernel, [1; 3], &[view, Arg::Buffer(&out), Arg::Bits(at as u64)]).unwrap();
            assert_eq!(host.read::<i32>(&out), [4, 4, 4]);
        }
    }
    assert_eq!(host.read::<i32>(&data), [1, 2, 3]);
}

#[test]
fn every_type_goes_through_memory() {
    for elem in Scalar::COMPUTED {
        let bits: Vec<u64> =
            [0u64, 1, 0x7fc1, 0x8000_0001, u64::MAX].map(|b| Literal::from_bits(elem, b).bits()).to_vec();
        assert_eq!(map_tile(&[(elem, &bits)], elem, |_, v| v[0]).unwrap(), bits, "{elem}");
    }
    // Any byte that is not 0 is true.
    assert_eq!(
        map_tile(&[(Scalar::Bool, &[0, 1, 2, 255])], Scalar::Bool, |_, v| v[0]).unwrap(),
        [0, 1, 1, 1]
    );
}

#[test]
fn gather_and_scatter_by_tiles_of_indices() {
    let params = [P::View(Scalar::I32, 1), P::View(Scalar::U64, 1), P::View(Scalar::I32, 1)];
    let kernel = tiles(&params, |b, p| {
        let zero = b.index(0);
        let none = b.constant(Literal::zero(Scalar::U64));
        let index = b.load(p[1], &[zero], none, Shape::new(&[6]), Reuse::Normal);
        let padding = b.i32(-7);
        let values = b.gather(p[0], &[index], None, padding, Bounds::Mask);
        b.store(p[2], &[zero], values, Reuse::Normal, true);
        let tens = b.splat(Literal::wrapping(Scalar::I32, 10), Shape::new(&[6]));
        let tens = b.binary(BinaryOp::Mul, values, tens);
        let iota = b.iota(Scalar::I32, 6);
        let odd = b.splat(Literal::wrapping(Scalar::I32, 1), Shape::new(&[6]));
        let odd = b.binary(BinaryOp::And, iota, odd);
        let odd = b.cast(odd, Scalar::Bool);
        b.scatter(p[0], &[index], Some(odd), tens, Bounds::Mask);
    });
    let host = Host::new();
    let data = host.vector(&[10, 11, 12, 13i32]);
    let index = host.vector(&[3u64, 1, 0, u64::MAX, 4, 2]);
    let out = host.uninit(24, &[6]);
    host.run(&kernel, [1; 3], &args(&[&data, &index, &out])).unwrap();
    assert_eq!(host.read::<i32>(&out), [13, 11, 10, -7, -7, 12]);
    assert_eq!(host.read::<i32>(&data), [10, 110, 120, 13]);
}

#[test]
fn masked_gathers_read_nothing() {
    // The masked-off index would be out of bounds.
    let kernel = tiles(&[P::View(Scalar::F32, 2), P::View(Scalar::F32, 1)], |b, p| {
        let zero = b.index(0);
        let row = b.iota(Scalar::I32, 4);
        let column = b.splat(Literal::wrapping(Scalar::I32, 1), Shape::new(&[4]));
        let three = b.splat(Literal::wrapping(Scalar::I32, 3), Shape::new(&[4]));
        let inside = b.compare(CompareOp::Lt, row, three);
        let padding = b.f32(0.5);
        let values = b.gather(p[0], &[row, column], Some(inside), padding, Bounds::Check);
        b.store(p[1], &[zero], values, Reuse::Normal, true);
    });
    let host = Host::new();
    let data = host.buffer(&[0f32, 1.0, 2.0, 3.0, 4.0, 5.0], &[3, 2]);
    let out = host.uninit(16, &[4]);
    host.run(&kernel, [1; 3], &args(&[&data, &out])).unwrap();
    assert_eq!(host.read::<f32>(&out), [1.0, 3.0, 5.0, 0.5]);
}

/// An atomic of 4 threads on one element that holds `start`; thread `i` brings `values[i]`. The old
/// values, and what is left.
fn atomics(op: AtomicOp, elem: Scalar, start: u64, values: [u64; 4]) -> (Vec<u64>, u64) {
    let kernel = threads(4, &[P::View(elem, 1), P::View(elem, 1), P::View(elem, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let zero = b.index(0);
        let value = b.load_at(p[1], tid);
        let kind = OpKind::Atomic { op, scope: Scope::Device, bounds: Bounds::Check, masked: false };
        let old = b.op(kind, &[p[0], zero, value], &[Type::scalar(elem)]);
        let old = b.kernel.result(old);
        b.store_at(p[2], tid, old);
    });
    let host = Host::new();
    let size = elem.bytes() as usize;
    let place = Buffer { shape: vec![1], ..host.vector(&encode(elem, &[start])) };
    let brought = Buffer { shape: vec![4], ..host.vector(&encode(elem, &values)) };
    let old = host.uninit(4 * size, &[4]);
    host.run(&kernel, [1; 3], &args(&[&place, &brought, &old])).unwrap();
    (decode(elem, &host.read(&old)), decode(elem, &host.read(&place))[0])
}

#[test]
fn atomics_of_every_kind() {
    let (old, left) = atomics(AtomicOp::Add, Scalar::I32, 10, [1, 2, 3, 0xffff_ffff]);
    assert_eq!((old, left), (vec![10, 11, 13, 16], 15));
    let f = |x: f32| u64::from(x.to_bits());
    let (old, left) = atomics(AtomicOp::Add, Scalar::F32, f(0.5), [1.0, 2.0, 0.25, 0.0].map(f));
    assert_eq!((old, left), ([0.5, 1.5, 3.5, 3.75].map(f).to_vec(), f(3.75)));
    let (_, left) = atomics(AtomicOp::Min, Scalar::I64, 5, [7, -3i64 as u64, 2, 9]);
    assert_eq!(left as i64, -3);
    let (_, left) = atomics(AtomicOp::Min, Scalar::U32, 5, [7, 0xffff_fffd, 2, 9]);
    assert_eq!(left, 2);
    let (_, left) = atomics(AtomicOp::Max, Scalar::F32, f(-1.0), [f(-2.0), f(f32::NAN), f(3.0), f(1.0)]);
    assert_eq!(left, f(3.0));
    assert_eq!(atomics(AtomicOp::And, Scalar::U32, 0xff, [0xf0, 0x3f, 0xff, 0xff]).1, 0x30);
    assert_eq!(atomics(AtomicOp::Or, Scalar::U64, 1, [2, 4, 8, 1 << 63]).1, (1 << 63) | 15);
    assert_eq!(atomics(AtomicOp::Xor, Scalar::I32, 1, [3, 3, 1, 4]).1, 4);
    assert_eq!(atomics(AtomicOp::Exchange, Scalar::U32, 1, [2, 3, 4, 5]), (vec![1, 2, 3, 4], 5));
    let h = |x: f64| Literal::from_f64(Scalar::F16, x).bits();
    assert_eq!(atomics(AtomicOp::Add, Scalar::F16, h(1.0), [1.0, 2.0, 3.0, 4.0].map(h)).1, h(11.0));
}

#[test]
fn compare_and_exchange_happens_once() {
    let kernel = threads(4, &[P::View(Scalar::I32, 1), P::View(Scalar::I32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let zero = b.index(0);
        let expected = b.i32(0);
        let mine = b.cast(tid, Scalar::I32);
        let hundred = b.i32(100);
        let mine = b.binary(BinaryOp::Add, mine, hundred);
        let kind = OpKind::AtomicCas { scope: Scope::Device, bounds: Bounds::Check };
        let old = b.op(kind, &[p[0], zero, expected, mine], &[Type::scalar(Scalar::I32)]);
        let old = b.kernel.result(old);
        b.store_at(p[1], tid, old);
    });
    let host = Host::new();
    let (place, old) = (host.vector(&[0i32]), host.uninit(16, &[4]));
    host.run(&kernel, [1; 3], &args(&[&place, &old])).unwrap();
    assert_eq!((host.read::<i32>(&place), host.read::<i32>(&old)), (vec![100], vec![0, 100, 100, 100]));
}

#[test]
fn histogram_by_tile_atomics() {
    let kernel = tiles(&[P::View(Scalar::I32, 1), P::View(Scalar::U32, 1)], |b, p| {
        let pid = b.program_id(Axis::X);
        let eight = b.index(8);
        let at = b.binary(BinaryOp::Mul, pid, eight);
        let outside = b.i32(-1);
        let bins = b.load(p[0], &[at], outside, Shape::new(&[8]), Reuse::Normal);
        let ones = b.splat(Literal::one(Scalar::U32), Shape::new(&[8]));
        let kind =
            OpKind::Atomic { op: AtomicOp::Add, scope: Scope::Device, bounds: Bounds::Mask, masked: false };
        b.op(kind, &[p[1], bins, ones], &[Type::tile(Scalar::U32, Shape::new(&[8]))]);
    });
    let host = Host::new();
    let data: Vec<i32> = (0..101).map(|i| i * i % 5).collect();
    let bins = host.vector(&[0u32; 5]);
    host.run(&kernel, [13, 1, 1], &args(&[&host.vector(&data), &bins])).unwrap();
    let want: Vec<u32> = (0..5).map(|d| data.iter().filter(|&&v| v == d).count() as u32).collect();
    assert_eq!(host.read::<u32>(&bins), want);
}

#[test]
fn views_of_rank_0() {
    let kernel = tiles(&[P::View(Scalar::F32, 0), P::View(Scalar::F32, 0)], |b, p| {
        let padding = b.f32(0.0);
        let x = b.load(p[0], &[], padding, Shape::scalar(), Reuse::Normal);
        let y = b.binary(BinaryOp::Add, x, x);
        b.store(p[1], &[], y, Reuse::Normal, true);
    });
    let host = Host::new();
    let (x, y) = (host.buffer(&[21f32], &[]), host.buffer(&[0f32], &[]));
    host.run(&kernel, [1; 3], &args(&[&x, &y])).unwrap();
    assert_eq!(host.read::<f32>(&y), [42.0]);
}
