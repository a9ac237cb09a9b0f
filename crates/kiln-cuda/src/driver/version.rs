//! Versions: of CUDA, as the driver states it, and of the PTX language that a driver of that
//! version accepts.

use std::fmt;

/// A CUDA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// 13 of 13.0.
    pub major: u32,
    /// 0 of 13.0.
    pub minor: u32,
}

impl CudaVersion {
    /// The oldest version Kiln works with: it brought PTX for `sm_90a` and has every entry point
    /// that Kiln calls.
    pub const OLDEST: CudaVersion = CudaVersion { major: 12, minor: 0 };

    /// The number on the package of the first driver that supports [`CudaVersion::OLDEST`].
    pub const OLDEST_DRIVER: u32 = 525;

    /// From the driver's number: 1000 * major + 10 * minor.
    pub const fn from_number(number: i32) -> CudaVersion {
        let number = if number < 0 { 0 } else { number as u32 };
        CudaVersion { major: number / 1000, minor: number % 1000 / 10 }
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of the PTX language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion {
    /// 9 of 9.0.
    pub major: u32,
    /// 0 of 9.0.
    pub minor: u32,
}

/// The first CUDA version (major, minor) that accepts a PTX version (major, minor), oldest first.
/// Versions between two rows accept what the row before them does.
const PTX_OF_CUDA: &[[u32; 4]] = &[
    [12, 0, 8, 0],
    [12, 1, 8, 1],
    [12, 2, 8, 2],
    [12, 3, 8, 3],
    [12, 4, 8, 4],
    [12, 5, 8, 5],
    [12, 7, 8, 6],
    [12, 8, 8, 7],
    [12, 9, 8, 8],
    [13, 0, 9, 0],
    [13, 1, 9, 1],
    [13, 2, 9, 2],
    [13, 3, 9, 3],
    [13, 4, 9, 4],
    [13, 5, 9, 5],
];

impl PtxVersion {
    /// The highest version that a driver of this CUDA version accepts, by the table of this release
    /// of Kiln: a driver newer than the table gets the table's newest version, which it accepts
    /// too. Below [`CudaVersion::OLDEST`] there is none.
    ///
    /// ```
    /// use kiln_cuda::driver::{CudaVersion, PtxVersion};
    /// let driver = CudaVersion::from_number(13000);
    /// assert_eq!(PtxVersion::newest_for(driver).map(|ptx| ptx.to_string()).as_deref(), Some("9.0"));
    /// ```
    pub fn newest_for(driver: CudaVersion) -> Option<PtxVersion> {
        let accepts = |row: &&[u32; 4]| (row[0], row[1]) <= (driver.major, driver.minor);
        PTX_OF_CUDA.iter().rev().find(accepts).map(|&[_, _, major, minor]| PtxVersion { major, minor })
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptx(number: i32) -> Option<String> {
        PtxVersion::newest_for(CudaVersion::from_number(number)).map(|version| version.to_string())
    }

    #[test]
    fn ptx_versions_of_drivers() {
        assert_eq!(ptx(12000).as_deref(), Some("8.0"));
        assert_eq!(ptx(12040).as_deref(), Some("8.4"));
        // 12.6 brought no PTX of its own.
        assert_eq!(ptx(12060).as_deref(), Some("8.5"));
        assert_eq!(ptx(12070).as_deref(), Some("8.6"));
        assert_eq!(ptx(12080).as_deref(), Some("8.7"));
        assert_eq!(ptx(12090).as_deref(), Some("8.8"));
        assert_eq!(ptx(13000).as_deref(), Some("9.0"));
        assert_eq!(ptx(13050).as_deref(), Some("9.5"));
    }

    #[test]
    fn unknown_versions() {
        assert_eq!(ptx(11080), None);
        assert_eq!(ptx(0), None);
        assert_eq!(ptx(-1), None);
        // Between known versions and beyond them: the last known one before.
        assert_eq!(ptx(12110).as_deref(), Some("8.8"));
        assert_eq!(ptx(14000).as_deref(), Some("9.5"));
    }

    #[test]
    fn the_table_rises() {
        let rises = |at: usize| PTX_OF_CUDA.windows(2).all(|rows| rows[0][at..at + 2] < rows[1][at..at + 2]);
        assert!(rises(0) && rises(2));
        assert_eq!(PTX_OF_CUDA[0][..2], [CudaVersion::OLDEST.major, CudaVersion::OLDEST.minor]);
    }

    #[test]
    fn numbers() {
        assert_eq!(CudaVersion::from_number(12080), CudaVersion { major: 12, minor: 8 });
        assert_eq!(CudaVersion::from_number(13000).to_string(), "13.0");
        assert_eq!(CudaVersion::from_number(12110).to_string(), "12.11");
    }
}
