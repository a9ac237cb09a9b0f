//! Attention of one query for each sequence to a cache, against f64.

use crate::attention::{Options, Sizes, float, reference};
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds_near, list, same};
use kiln_kernels::attention::Cache;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::{Error, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["decoding":
        lengths_of_their_own for f16 bf16 f32;
        shared_keys for f16 bf16 f32;
        windows_caps_and_scales for bf16 f32;
        pages for f16 bf16 f32;
        long_caches for bf16 f32;
        any_lengths for f16 bf16;
        pages_that_are_not_there;
        refused;
    ]
}

/// What is computed: the keys of each sequence, room for more, heads, those that share one of keys,
/// and the width.
#[derive(Clone, Debug)]
struct Asked {
    lengths: Vec<usize>,
    room: usize,
    heads: usize,
    shared: usize,
    width: usize,
    /// Keys of a page, in tensors of pages.
    page: Option<usize>,
    options: Options,
}

fn asked(lengths: &[usize], [heads, shared, width]: [usize; 3]) -> Asked {
    let (lengths, options) = (lengths.to_vec(), Options::default());
    let room = lengths.iter().max().copied().unwrap_or(0) + 3;
    Asked { lengths, room, heads, shared, width, page: None, options }
}

/// How far results may be off, as of [`attention`](crate::attention).
fn ulps<T: Sample>() -> f64 {
    if T::EPSILON < 1e-6 { 512.0 } else { 8.0 }
}

fn decode<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>, asked: &Asked) -> Verdict {
    let Asked { ref lengths, room, heads, shared, width, page, options } = *asked;
    let (sequences, key_heads) = (lengths.len(), heads / shared);
    let pages = page.map(|page| (page, room.div_ceil(page)));
    // Pages in any order, of which some are nobody's.
    let outer = pages.map_or([sequences, room], |(page, most)| [sequences * most + 2, page]);
    let shape = [outer[0], outer[1], key_heads, width];
    let mut table: Vec<i32> = (0..outer[0] as i32).collect();
    for i in (1..table.len()).rev() {
        table.swap(i, trial.rng.below(i as u64 + 1) as usize);
    }
    let row = |sequence: usize, key: usize| match pages {
        Some((page, most)) => table[sequence * most + key / page] as usize * page + key % page,
        None => sequence * room + key,
    };
    let (q, qs) = trial.input::<T, 3>([sequences, heads, width])?;
    let (mut k, mut ks) = trial.input::<T, 4>(shape)?;
    let (mut v, mut vs) = trial.input::<T, 4>(shape)?;
    // Behind the last key of a sequence may be anything.
    let known: Vec<usize> =
        list(0..sequences, |b| list(0..lengths[b], |key| row(b, key))).into_iter().flatten().collect();
    let mut is_known = vec![false; outer[0] * outer[1]];
    known.iter().for_each(|&at| is_known[at] = true);
    for (at, _) in is_known.iter().enumerate().filter(|(_, known)| !**known) {
        let of = at * key_heads * width..(at + 1) * key_heads * width;
        ks[of.clone()].fill(T::from_host(Host::Float(f64::NAN)));
        vs[of].fill(T::from_host(Host::Float(f64::NAN)));
    }
    k.write(&ks)?;
    v.write(&vs)?;
    let counts = trial.vector(&list(0..sequences, |b| lengths[b] as i32))?;
    let cache = match pages {
        Some((_, most)) => {
            let names = trial.device.tensor(&table[..sequences * most], [sequences, most])?;
            Cache::paged(&k, &v, &counts, &names)?
        }
        None => Cache::new(&k, &v, &counts)?,
    };
    let mut o = trial.output::<T, 3>([sequences, heads, width])?;
    options.attention().decode(&q, &cache, &mut o)?;

    let mut expected = Vec::new();
    for (b, &keys) in lengths.iter().enumerate() {
        let of = |x: &[T]| -> Vec<f64> {
            let rows = (0..key_heads).flat_map(|h| (0..keys).map(move |key| (h, key)));
            rows.flat_map(|(h, key)| float(&x[(row(b, key) * key_heads + h) * width..][..width])).collect()
        };
        let sizes = Sizes { heads, shared, queries: 1, keys, width };
        let query = float(&qs[b * heads * width..][..heads * width]);
        expected.extend(reference(sizes, [&query, &of(&ks), &of(&vs)], options).0);
    }
    let what = format!("{asked:?}");
    holds_near(&what, &o, &expected, ulps::<T>(), 4.0)?;
    let mut again = trial.output::<T, 3>([sequences, heads, width])?;
    options.attention().decode(&q, &cache, &mut again)?;
    let digits = |x: Vec<T>| x.iter().map(|x| format!("{x:?}")).collect::<Vec<String>>();
    same(&format!("{what}, again"), &digits(again.to_vec()?), &digits(o.to_vec()?))
}

fn lengths_of_their_own<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    decode::<T>(trial, &asked(&[1], [1, 1, 1]))?;
    decode::<T>(trial, &asked(&[0, 5, 33, 1], [2, 1, 16]))?;
    decode::<T>(trial, &asked(&[0, 0], [1, 1, 8]))?;
    decode::<T>(trial, &asked(&[], [2, 1, 8]))?;
    decode::<T>(trial, &Asked { room: 0, ..asked(&[0], [1, 1, 8]) })?;
    decode::<T>(trial, &asked(&[70, 65, 64, 63], [1, 1, 64]))?;
    decode::<T>(trial, &asked(&[150, 7], [1, 1, 5]))
}

fn shared_keys<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    decode::<T>(trial, &asked(&[90, 3], [8, 4, 32]))?;
    decode::<T>(trial, &asked(&[40], [6, 3, 24]))?;
    decode::<T>(trial, &asked(&[17, 130], [17, 17, 16]))?;
    decode::<T>(trial, &asked(&[65], [4, 4, 128]))?;
    // Shared memory of 32 KiB has no room for all heads and many keys.
    decode::<T>(trial, &asked(&[19], [34, 17, 80]))?;
    decode::<T>(trial, &asked(&[9], [70, 70, 100]))?;
    decode::<T>(trial, &asked(&[35], [2, 2, 200]))
}

fn windows_caps_and_scales<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let limits = [(Some(0), None, None), (Some(20), Some(30.0), None), (None, Some(5.0), Some(0.5))];
    for (left, cap, scale) in limits {
        let options = Options { left, right: Some(0), cap, scale, ..Options::default() };
        decode::<T>(trial, &Asked { options, ..asked(&[75, 0, 1, 21], [2, 2, 16]) })?;
    }
    let options = Options { left: Some(1 << 50), scale: Some(-0.2), ..Options::default() };
    decode::<T>(trial, &Asked { options, ..asked(&[33], [1, 1, 16]) })
}

fn pages<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for (page, lengths, heads) in [
        (8, &[1, 8, 9, 0][..], [2, 1, 8]),
        (16, &[100, 33], [4, 2, 32]),
        (64, &[129, 64], [1, 1, 64]),
        (24, &[70], [2, 2, 16]),
        (128, &[300, 5], [4, 4, 128]),
    ] {
        decode::<T>(trial, &Asked { page: Some(page), ..asked(lengths, heads) })?;
    }
    let options = Options { left: Some(30), ..Options::default() };
    decode::<T>(trial, &Asked { page: Some(16), options, ..asked(&[90, 31], [2, 1, 16]) })
}

/// Many parts, of which a sequence with few keys leaves most empty.
fn long_caches<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    decode::<T>(trial, &asked(&[1500, 2], [1, 1, 16]))?;
    decode::<T>(trial, &Asked { room: 3000, ..asked(&[700], [2, 2, 8]) })
}

/// Any sizes and options.
fn any_lengths<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for _ in 0..4 {
        let rng = &mut trial.rng;
        let lengths: Vec<usize> = list(0..1 + rng.below(3), |_| rng.below(200) as usize);
        let (shared, key_heads) = (1 + rng.below(5) as usize, 1 + rng.below(2) as usize);
        let width = 8 * (1 + rng.below(16) as usize);
        let page = (rng.below(2) == 0).then(|| 8 * (1 + rng.below(9) as usize));
        let options = Options::random(rng, lengths[0]);
        let options = Options { right: None, ..options };
        let base = asked(&lengths, [shared * key_heads, shared, width]);
        decode::<T>(trial, &Asked { page, options, ..base })?;
    }
    Ok(())
}

fn pages_that_are_not_there(trial: &mut Trial<'_>) -> Verdict {
    let (k, _) = trial.input::<f32, 4>([2, 8, 1, 8])?;
    let (q, _) = trial.input::<f32, 3>([1, 1, 8])?;
    for page in [2, -1] {
        let table = trial.device.tensor(&[0, page], [1, 2])?;
        let cache = Cache::paged(&k, &k, &trial.vector(&[9])?, &table)?;
        let mut o = trial.output::<f32, 3>([1, 1, 8])?;
        let result = kiln_kernels::Attention::new().decode(&q, &cache, &mut o).and_then(|()| o.to_vec());
        let named = matches!(&result, Err(Error::Device(e)) if e.to_string().contains("page"));
        ensure(named, || format!("page {page}: {result:?}"))?;
    }
    Ok(())
}

fn refused(trial: &mut Trial<'_>) -> Verdict {
    let (k, _) = trial.input::<f32, 4>([2, 16, 2, 8])?;
    let (other, _) = trial.input::<f32, 4>([2, 16, 2, 4])?;
    let (lengths, three) = (trial.vector(&[1, 2])?, trial.vector(&[1, 2, 3])?);
    let is_shape = |result: kiln_runtime::Result<()>, argument: &str| {
        let named = matches!(&result, Err(Error::Shape { what, .. }) if what.contains(argument));
        ensure(named, || format!("a wrong {argument}: {result:?}"))
    };
    is_shape(Cache::new(&k, &other, &lengths).map(drop), "v")?;
    is_shape(Cache::new(&k, &k, &three).map(drop), "lengths")?;
    let cache = Cache::new(&k, &k, &lengths)?;
    let of = |shape: [usize; 3]| trial.device.zeros::<f32, 3>(shape);
    let decode =
        |q: &Tensor<f32, 3>, o: &mut Tensor<f32, 3>| kiln_kernels::Attention::new().decode(q, &cache, o);
    is_shape(decode(&of([2, 2, 8])?, &mut of([2, 4, 8])?), "attention, o")?;
    is_shape(decode(&of([3, 2, 8])?, &mut of([3, 2, 8])?), "lengths")?;
    is_shape(decode(&of([2, 2, 4])?, &mut of([2, 2, 4])?), "width")?;
    let is_value = |result: kiln_runtime::Result<()>, argument: &str| {
        let named = matches!(&result, Err(Error::Value { what, .. }) if what.contains(argument));
        ensure(named, || format!("a wrong {argument}: {result:?}"))
    };
    is_value(decode(&of([2, 3, 8])?, &mut of([2, 3, 8])?), "heads")?;
    let (odd, _) = trial.input::<f32, 4>([2, 12, 2, 8])?;
    let table = trial.device.tensor(&[0, 1], [2, 1])?;
    is_value(Cache::paged(&odd, &odd, &lengths, &table).map(drop), "page")
}
