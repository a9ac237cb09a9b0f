//! What GPUs of a compute capability can do.

use kiln_backend::{Capabilities, Clock, Execution, MatrixFormat, MatrixUnits};

/// The first whose matrix units are used (Ampere).
const MATRIX_UNITS_SINCE: (u32, u32) = (8, 0);
/// The first with products of 8-bit floats (Ada).
const FLOAT8_SINCE: (u32, u32) = (8, 9);
/// The first with clusters and bulk copies, and the only one with products of warpgroups (Hopper).
const HOPPER: (u32, u32) = (9, 0);
/// The most blocks of a cluster that every GPU with clusters has room for.
const MAX_CLUSTER: u32 = 8;

/// What a GPU of a compute capability, such as (9, 0), can do. It needs no driver.
///
/// ```
/// use kiln_cuda::capabilities;
/// assert!(capabilities((9, 0)).warpgroup_products && !capabilities((8, 0)).has_clusters());
/// ```
pub fn capabilities(compute: (u32, u32)) -> Capabilities {
    let formats = [MatrixFormat::Float16, MatrixFormat::Tf32, MatrixFormat::Int8, MatrixFormat::Float64];
    let since_ampere = match compute >= MATRIX_UNITS_SINCE {
        true => formats.into_iter().fold(MatrixUnits::NONE, MatrixUnits::with),
        false => MatrixUnits::NONE,
    };
    let float8 = compute >= FLOAT8_SINCE;
    let since_hopper = compute >= HOPPER;
    Capabilities {
        matrix_units: if float8 { since_ampere.with(MatrixFormat::Float8) } else { since_ampere },
        warpgroup_products: compute == HOPPER,
        bulk_copies: since_hopper,
        clusters: if since_hopper { MAX_CLUSTER } else { 1 },
        explicit_level: since_hopper,
        concurrent_blocks: true,
        grid_barriers: true,
        inline_ptx: true,
        atomic_128: since_hopper,
        loads_beside_residents: false,
        peer_access: true,
        contraction: true,
        clock: Clock::Device,
        ..Capabilities::new(Execution::Simt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_add_capabilities() {
        let [turing, ampere, ada, hopper, blackwell] =
            [(7, 5), (8, 0), (8, 9), (9, 0), (10, 0)].map(capabilities);
        let units = [turing, ampere].map(|c| c.matrix_units.multiply(MatrixFormat::Float16));
        assert_eq!(units, [false, true]);
        let float8 = [ampere, ada, hopper, blackwell].map(|c| c.matrix_units.multiply(MatrixFormat::Float8));
        assert_eq!(float8, [false, true, true, true]);
        assert_eq!([ampere, ada, hopper, blackwell].map(|c| c.clusters), [1, 1, 8, 8]);
        assert_eq!([ampere, ada, hopper, blackwell].map(|c| c.bulk_copies), [false, false, true, true]);
        assert_eq!([ampere, ada, hopper, blackwell].map(|c| c.atomic_128), [false, false, true, true]);
        let warpgroups = [ampere, ada, hopper, blackwell].map(|c| c.warpgroup_products);
        assert_eq!(warpgroups, [false, false, true, false]);
    }
}
