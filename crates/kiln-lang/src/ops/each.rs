//! What is done with each tile of a value: of a tile, of a tuple or of a struct of tiles.

use super::axis::{Axis, chosen, picked, scalar_of, seen_as};
use super::common_shape;
use super::rearrange::{padded, stretched};
use crate::flow::{DeviceValue, Zip};
use crate::trace::{Raw, Site, error, with};
use crate::val::{now, shape_of};
use kiln_ir::{Literal, Shape};

/// The tiles of a value in one shape, and their axis; reports shapes that do not combine.
pub(super) fn begin<D: DeviceValue>(values: &D, axis: usize, name: &str, site: Site) -> Option<(D, Axis)> {
    let mut tiles = Vec::new();
    let values = values.map(&mut |raw| {
        let raw = now(raw, site);
        tiles.push(raw);
        raw
    });
    let axis = common_axis(&tiles, axis, name, site)?;
    Some((values.map(&mut |raw| stretched(raw, &axis.shape, site)), axis))
}

fn common_axis(tiles: &[Raw], axis: usize, name: &str, site: Site) -> Option<Axis> {
    if tiles.is_empty() {
        let message = format!("`{name}` combines tiles, and this value has none");
        error(site, message, "give it a tile, or a tuple or struct of tiles");
        return None;
    }
    Axis::of(with(|r| common_shape(r, tiles, site)).flatten()?, axis, site)
}

/// Each tile seen in another shape.
pub(super) fn all_seen_as<D: DeviceValue>(values: &D, shape: &Shape, site: Site) -> D {
    values.map(&mut |raw| seen_as(raw, shape, site))
}

/// The elements at one index of an axis of each tile.
pub(super) fn all_picked<D: DeviceValue>(values: &D, axis: usize, index: u32, site: Site) -> D {
    values.map(&mut |raw| picked(raw, axis, index, site))
}

/// Each tile among so many elements of its axis, zeros before and behind it.
pub(super) fn all_padded<D: DeviceValue>(
    values: &D,
    axis: &Axis,
    among: (u32, u32),
    name: &str,
    site: Site,
) -> D {
    values.map(&mut |raw| match scalar_of(raw) {
        Some(elem) => padded(raw, axis, among, Literal::zero(elem), name, site),
        None => Raw::Poison,
    })
}

/// What a function gave, each tile stretched to the shape of one that it took; reports shapes that
/// do not.
pub(super) fn fitted<D: DeviceValue>(like: &D, given: &D, name: &'static str, site: Site) -> D {
    like.zip(given, &mut Fit { name, site })
}

struct Fit {
    name: &'static str,
    site: Site,
}

impl Zip for Fit {
    fn device(&mut self, like: Raw, given: Raw) -> Raw {
        match shape_of(like) {
            Some(shape) => fit(given, &shape, self.name, self.site),
            None => Raw::Poison,
        }
    }

    fn host(&mut self, _: bool) -> bool {
        true
    }
}

/// What a function gave, stretched to the shape of what it took; reports one that does not.
pub(super) fn fit(given: Raw, shape: &Shape, name: &str, site: Site) -> Raw {
    let Some(from) = shape_of(given) else { return Raw::Poison };
    if from.broadcast(shape).as_ref() != Some(shape) {
        let message = format!("the function of `{name}` gives a tile of shape {from}");
        error(site, message, "it takes tiles of another shape in each step, and gives one of the same");
        return Raw::Poison;
    }
    stretched(given, shape, site)
}

/// The first where a condition holds, the second elsewhere.
pub(crate) struct Choose {
    pub condition: Raw,
    pub site: Site,
}

impl Zip for Choose {
    fn device(&mut self, a: Raw, b: Raw) -> Raw {
        chosen(self.condition, a, b, self.site)
    }

    fn host(&mut self, _: bool) -> bool {
        false
    }
}
