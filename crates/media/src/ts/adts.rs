/// Frequencies of samples by their index (ISO/IEC 14496-3, 1.6.3.4).
const RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// The sound that frames of AAC are, as their headers say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AacConfig {
    /// `audioObjectType`.
    pub object: u8,
    /// Index of the rate.
    pub frequency: u8,
    /// `channelConfiguration`; 0 if the frames say it themselves.
    pub channels: u8,
}

impl AacConfig {
    /// Samples of a frame.
    pub const SAMPLES: u64 = 1_024;

    /// Samples per second.
    pub fn rate(self) -> u32 {
        RATES[usize::from(self.frequency)]
    }
}

/// The header of a frame of AAC (ISO/IEC 13818-7, 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdtsHeader {
    /// What the frame is.
    pub config: AacConfig,
    /// Octets of the frame with its header.
    pub len: usize,
    /// Octets of the header, with its checksum if it has one.
    pub header: usize,
}

impl AdtsHeader {
    /// The first header in `data`, and the octets before it, which are none of a frame.
    pub(super) fn find(data: &[u8]) -> Option<(usize, AdtsHeader)> {
        (0..data.len()).find_map(|at| Some((at, AdtsHeader::read(&data[at..])?)))
    }

    /// The header with which `data` begins.
    pub fn read(data: &[u8]) -> Option<AdtsHeader> {
        let it: &[u8; 7] = data.first_chunk()?;
        let is_header = it[0] == 0xFF && it[1] & 0xF6 == 0xF0;
        let config = AacConfig {
            object: (it[2] >> 6) + 1,
            frequency: it[2] >> 2 & 15,
            channels: (it[2] & 1) << 2 | it[3] >> 6,
        };
        let header = AdtsHeader {
            config,
            len: usize::from(it[3] & 3) << 11 | usize::from(it[4]) << 3 | usize::from(it[5] >> 5),
            header: if it[1] & 1 == 1 { 7 } else { 9 },
        };
        let is_known = usize::from(config.frequency) < RATES.len();
        (is_header && is_known && header.len > 7).then_some(header)
    }
}
