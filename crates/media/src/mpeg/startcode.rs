use memchr::memmem;

/// The fourth byte of a start code `00 00 01 xx` (ISO/IEC 13818-2 table 6-1, 13818-1 table 2-18).
pub(crate) mod code {
    pub const PICTURE: u8 = 0x00;
    pub const SLICE_FIRST: u8 = 0x01;
    pub const SLICE_LAST: u8 = 0xAF;
    pub const SEQUENCE: u8 = 0xB3;
    pub const EXTENSION: u8 = 0xB5;
    pub const SEQUENCE_END: u8 = 0xB7;
    pub const GOP: u8 = 0xB8;
    pub const PROGRAM_END: u8 = 0xB9;
    pub const PACK: u8 = 0xBA;
    pub const VIDEO_FIRST: u8 = 0xE0;
    pub const VIDEO_LAST: u8 = 0xEF;
}

/// All start codes of `data` in order: offset of the first zero byte, and the code.
pub(crate) fn start_codes(data: &[u8]) -> impl Iterator<Item = (usize, u8)> + '_ {
    memmem::find_iter(data, b"\x00\x00\x01").filter_map(|at| Some((at, *data.get(at + 3)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_codes_are_found_where_they_begin() {
        let data = [
            9, 0, 0, 0, 1, 0xB3, 0, 0, 1, 0xB8, 0, 0, 2, 0, 0, 1, 0, 0, 1, 7, 0, 0, 1,
        ];
        let found: Vec<_> = start_codes(&data).collect();
        assert_eq!(found, [(2, 0xB3), (6, 0xB8), (13, 0), (16, 7)]);
    }
}
