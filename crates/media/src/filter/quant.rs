/// Raster positions in zig-zag order (ISO/IEC 13818-2 figure 7-2).
pub(super) const ZIG_ZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Raster positions in the alternate order (figure 7-3).
pub(super) const ALTERNATE: [u8; 64] = [
    0, 8, 16, 24, 1, 9, 2, 10, 17, 25, 32, 40, 48, 56, 57, 49, 41, 33, 26, 18, 3, 11, 4, 12, 19,
    27, 34, 42, 50, 58, 35, 43, 51, 59, 20, 28, 5, 13, 6, 14, 21, 29, 36, 44, 52, 60, 37, 45, 53,
    61, 22, 30, 7, 15, 23, 31, 38, 46, 54, 62, 39, 47, 55, 63,
];

/// Default intra matrix, raster order (6.3.11).
const INTRA: [u8; 64] = [
    8, 16, 19, 22, 26, 27, 29, 34, 16, 16, 22, 24, 27, 29, 34, 37, 19, 22, 26, 27, 29, 34, 34, 38,
    22, 22, 26, 27, 29, 34, 37, 40, 22, 26, 27, 29, 32, 35, 40, 48, 26, 27, 29, 32, 35, 40, 48, 58,
    26, 27, 29, 34, 38, 46, 56, 69, 27, 29, 35, 38, 46, 56, 69, 83,
];

/// `quantiser_scale` by code where `q_scale_type` is 1 (table 7-6).
const NON_LINEAR: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64,
    72, 80, 88, 96, 104, 112,
];

/// Largest magnitude of a dequantised coefficient, nearly (7.4.3).
const MAX: u32 = 2_047;

/// The quantiser matrices in force, in raster order.
#[derive(Clone, Debug)]
pub(super) struct Matrices {
    pub intra: [u8; 64],
    pub non_intra: [u8; 64],
}

impl Default for Matrices {
    fn default() -> Matrices {
        Matrices {
            intra: INTRA,
            non_intra: [16; 64],
        }
    }
}

/// A matrix that came in zig-zag order, in raster order.
pub(super) fn raster(zig_zag: &[u8; 64]) -> [u8; 64] {
    let mut raster = [0; 64];
    for (&at, &weight) in ZIG_ZAG.iter().zip(zig_zag) {
        raster[usize::from(at)] = weight;
    }
    raster
}

/// The quantiser scale of a code: twice the code, or from the table.
pub(super) fn scale(code: u8, non_linear: bool) -> u32 {
    if non_linear {
        u32::from(NON_LINEAR[usize::from(code & 31)])
    } else {
        2 * u32::from(code)
    }
}

/// The square of a dequantised coefficient (7.4.2.3, without mismatch control).
pub(super) fn energy(intra: bool, magnitude: u16, weight: u8, scale: u32) -> u32 {
    let twice = 2 * u32::from(magnitude) + u32::from(!intra);
    let value = (twice * u32::from(weight) * scale / 32).min(MAX);
    value * value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_scans_visit_every_position_once() {
        for scan in [ZIG_ZAG, ALTERNATE] {
            let mut sorted = scan;
            sorted.sort();
            assert!(
                sorted
                    .iter()
                    .enumerate()
                    .all(|(i, &at)| i == usize::from(at))
            );
        }
        assert_eq!(raster(&ZIG_ZAG)[8], 8);
    }

    #[test]
    fn coefficients_are_dequantised_as_in_7_4_2() {
        // Intra: 2 * 3 * 16 * (2 * 4) / 32 = 24; non-intra: (2 * 3 + 1) * 16 * 8 / 32 = 28.
        assert_eq!(energy(true, 3, 16, scale(4, false)), 24 * 24);
        assert_eq!(energy(false, 3, 16, scale(4, false)), 28 * 28);
        assert_eq!(scale(31, true), 112);
        assert_eq!(energy(true, 2_047, 255, 112), 2_047 * 2_047);
    }
}
