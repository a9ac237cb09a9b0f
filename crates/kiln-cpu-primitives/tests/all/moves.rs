//! Copies, boxes, gather and scatter against element-by-element index arithmetic.

use super::{Random, Tile, lengths, primitive, values};
use kiln_cpu_primitives::{BoxAxis, CopyAxis, Isa, PrimitiveKey};
use kiln_ir::Scalar;

/// A type of each size.
const SIZES: [Scalar; 4] = [Scalar::Bool, Scalar::F16, Scalar::F32, Scalar::I64];

#[test]
fn contiguous_copies() {
    for isa in Isa::available() {
        for scalar in Scalar::COMPUTED {
            for key in [PrimitiveKey::Copy(scalar), PrimitiveKey::CopyStreaming(scalar)] {
                let f = primitive!(isa, Unary, key);
                for (n, shift) in lengths().flat_map(|n| (0..n.min(9)).map(move |shift| (n, shift))) {
                    let a = Tile::new(scalar, &values(scalar, n, n as u64));
                    let mut out = Tile::poisoned(scalar, n);
                    let offset = shift * scalar.bytes() as usize;
                    // SAFETY: `n - shift` elements from `shift` are within both tiles.
                    unsafe { f(out.mut_ptr().add(offset), a.ptr().add(offset), n - shift) };
                    assert_eq!(
                        out.elements()[shift..],
                        a.elements()[shift..],
                        "{key:?}, n {n}, shift {shift}"
                    );
                }
            }
        }
    }
}

/// Every index of a shape, outermost first.
fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    shape.iter().fold(vec![vec![]], |all, &extent| {
        let extend = |index: Vec<i64>| (0..extent).map(move |i| [index.clone(), vec![i]].concat());
        all.into_iter().flat_map(extend).collect()
    })
}

fn offset(index: &[i64], strides: &[i64]) -> i64 {
    index.iter().zip(strides).map(|(i, s)| i * s).sum()
}

fn row_major(shape: &[i64]) -> Vec<i64> {
    (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
}

#[test]
fn strided_copies() {
    // Shapes with the source's strides and first element: rows, transpositions in two and three
    // axes, broadcasts, reversals, gaps.
    let cases: [(&[i64], &[i64], i64); 14] = [
        (&[], &[], 3),
        (&[7], &[1], 0),
        (&[7], &[5], 2),
        (&[7], &[-1], 6),
        (&[9], &[0], 1),
        (&[5, 9], &[9, 1], 0),
        (&[33, 50], &[1, 33], 0),
        (&[16, 17], &[2, 40], 1),
        (&[4, 9], &[0, 1], 0),
        (&[4, 9], &[1, 0], 0),
        (&[2, 3, 5], &[1, 2, 6], 0),
        (&[2, 19, 21], &[400, 1, 19], 3),
        (&[3, 0, 2], &[1, 1, 1], 0),
        (&[2, 3, 4, 5], &[60, -5, 15, 1], 10),
    ];
    for scalar in SIZES {
        let f = primitive!(Isa::best(), StridedCopy, PrimitiveKey::StridedCopy(scalar));
        for (shape, strides, first) in cases {
            let to_strides = row_major(shape);
            let from = Tile::new(scalar, &values(scalar, 2000, 1));
            let count = shape.iter().product::<i64>() as usize;
            let mut to = Tile::poisoned(scalar, count);
            let axis =
                |i: usize| CopyAxis { extent: shape[i], to_stride: to_strides[i], from_stride: strides[i] };
            let axes: Vec<CopyAxis> = (0..shape.len()).map(axis).collect();
            let size = scalar.bytes() as usize;
            // SAFETY: the cases stay within 2000 elements of the source and fill the destination.
            unsafe { f(to.mut_ptr(), from.ptr().add(first as usize * size), axes.as_ptr(), axes.len()) };
            let elements = from.elements();
            let expected: Vec<u64> = indices(shape)
                .iter()
                .map(|index| elements[(first + offset(index, strides)) as usize])
                .collect();
            assert_eq!(to.elements(), expected, "{scalar} {shape:?} {strides:?}");

            // And back, to a strided destination.
            if strides.contains(&0) {
                continue;
            }
            let mut back = Tile::new(scalar, &vec![0; 2000]);
            let swap = |a: &CopyAxis| CopyAxis { to_stride: a.from_stride, from_stride: a.to_stride, ..*a };
            let axes: Vec<CopyAxis> = axes.iter().map(swap).collect();
            // SAFETY: as above.
            unsafe { f(back.mut_ptr().add(first as usize * size), to.ptr(), axes.as_ptr(), axes.len()) };
            let mut expected = vec![0; 2000];
            for index in indices(shape) {
                let at = (first + offset(&index, strides)) as usize;
                expected[at] = elements[at];
            }
            assert_eq!(back.elements(), expected, "{scalar} {shape:?} {strides:?} back");
        }
    }
}

/// Boxes inside, across every edge of, and outside views whose axes are adjacent, padded,
/// transposed, broadcast or reversed.
fn boxes() -> Vec<Vec<BoxAxis>> {
    let mut random = Random(17);
    let mut all = vec![vec![]];
    for rank in [1, 2, 3, 4, 9] {
        for case in 0..60 {
            let mut stride = 1 + (case % 3 == 0) as i64;
            let mut axes: Vec<BoxAxis> = (0..rank)
                .map(|_| {
                    let (tile, extent) = if rank == 9 {
                        (1 + random.below(2) as i64, 1 + random.below(2) as i64)
                    } else {
                        (
                            random.below([70, 24, 9, 5][rank - 1]) as i64,
                            random.below([90, 24, 9, 5][rank - 1]) as i64,
                        )
                    };
                    let inside = random.below((extent - tile).max(0) as usize + 1) as i64;
                    let anywhere = random.below(40) as i64 - 20;
                    let axis = BoxAxis {
                        tile,
                        offset: if case % 2 == 0 { inside } else { anywhere },
                        extent,
                        stride,
                    };
                    stride *= extent.max(1) + (case % 5 == 0) as i64;
                    axis
                })
                .collect();
            if case % 4 != 1 {
                axes.reverse();
            }
            all.push(axes);
        }
    }
    all.push(vec![BoxAxis { tile: 5, offset: i64::MAX, extent: 3, stride: 1 }]);
    all.push(vec![BoxAxis { tile: 5, offset: i64::MIN, extent: 3, stride: 1 }]);
    all
}

/// For each element of the tile, its place in the view if it has one.
fn places(axes: &[BoxAxis]) -> Vec<Option<usize>> {
    let shape: Vec<i64> = axes.iter().map(|axis| axis.tile).collect();
    let place = |index: Vec<i64>| {
        let at = |(i, axis): (&i64, &BoxAxis)| {
            let at = *i as i128 + axis.offset as i128;
            (0..axis.extent as i128).contains(&at).then_some(at as i64 * axis.stride)
        };
        index.iter().zip(axes).map(at).sum::<Option<i64>>().map(|place| place as usize)
    };
    indices(&shape).into_iter().map(place).collect()
}

fn view_len(axes: &[BoxAxis]) -> usize {
    1 + axes.iter().map(|axis| (axis.extent - 1).max(0) * axis.stride).sum::<i64>() as usize
}

#[test]
fn boxes_load_with_padding() {
    for scalar in SIZES {
        let f = primitive!(Isa::best(), Box, PrimitiveKey::LoadBox(scalar));
        for axes in boxes() {
            let mut view = Tile::new(scalar, &values(scalar, view_len(&axes), 2));
            let places = places(&axes);
            let mut tile = Tile::poisoned(scalar, places.len());
            // SAFETY: the view has every element inside the extents and the tile all of its
            // elements.
            unsafe { f(tile.mut_ptr(), view.mut_ptr(), axes.as_ptr(), axes.len(), 1) };
            let elements = view.elements();
            let expected: Vec<u64> = places.iter().map(|place| place.map_or(1, |p| elements[p])).collect();
            assert_eq!(tile.elements(), expected, "{scalar} {axes:?}");
        }
    }
}

#[test]
fn boxes_store_inside_only() {
    for scalar in SIZES {
        for key in [PrimitiveKey::StoreBox(scalar), PrimitiveKey::StoreBoxStreaming(scalar)] {
            let f = primitive!(Isa::best(), Box, key);
            for axes in boxes() {
                let places = places(&axes);
                let mut tile = Tile::new(scalar, &values(scalar, places.len(), 3));
                let mut view = Tile::new(scalar, &values(scalar, view_len(&axes), 4));
                let mut expected = view.elements();
                for (place, element) in places.iter().zip(tile.elements()) {
                    if let Some(place) = place {
                        expected[*place] = element;
                    }
                }
                // SAFETY: as for loads.
                unsafe { f(tile.mut_ptr(), view.mut_ptr(), axes.as_ptr(), axes.len(), 0) };
                assert_eq!(view.elements(), expected, "{key:?} {axes:?}");
            }
        }
    }
}

#[test]
fn gather_and_scatter() {
    let mut random = Random(23);
    for scalar in SIZES {
        let gather = primitive!(Isa::best(), Gather, PrimitiveKey::Gather(scalar));
        let scatter = primitive!(Isa::best(), Scatter, PrimitiveKey::Scatter(scalar));
        for (n, masked) in lengths().flat_map(|n| [(n, false), (n, true)]) {
            let memory = Tile::new(scalar, &values(scalar, 100, 5));
            let mask: Vec<u8> = (0..n).map(|_| !masked as u8 | (random.below(2) as u8)).collect();
            // Where the mask is 0 the index may be anything.
            let index: Vec<i64> = mask
                .iter()
                .map(|&m| if m == 0 { random.next() as i64 } else { random.below(100) as i64 })
                .collect();
            let mask_ptr = if masked { mask.as_ptr() } else { std::ptr::null() };

            let mut tile = Tile::poisoned(scalar, n);
            // SAFETY: active indices are within the 100 elements of memory.
            unsafe { gather(tile.mut_ptr(), memory.ptr(), index.as_ptr(), mask_ptr, 1, n) };
            let elements = memory.elements();
            let active = || index.iter().zip(&mask);
            let expected: Vec<u64> =
                active().map(|(&i, &m)| if m == 0 { 1 } else { elements[i as usize] }).collect();
            assert_eq!(tile.elements(), expected, "gather {scalar}, n {n}, masked {masked}");

            let tile = Tile::new(scalar, &values(scalar, n, 6));
            let (mut memory, mut expected) = (memory.clone(), elements);
            for ((&i, &m), element) in active().zip(tile.elements()) {
                if m != 0 {
                    expected[i as usize] = element;
                }
            }
            // SAFETY: as above.
            unsafe { scatter(memory.mut_ptr(), tile.ptr(), index.as_ptr(), mask_ptr, n) };
            assert_eq!(memory.elements(), expected, "scatter {scalar}, n {n}, masked {masked}");
        }
    }
}
