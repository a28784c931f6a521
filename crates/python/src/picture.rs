//! Studies of picture quality on ATM: questions and answers travel as JSON.

use std::path::{Path, PathBuf};

use layercast_media::{ClassCensus, ClassifierConfig};
use layercast_picture::study::{
    AdaptiveSetting, BlockGeometry, BlockSetting, CarriedSetting, LossSetting, MatrixSetting,
    Setting,
};
use layercast_picture::{BlockOrder, CELL_FILE_HEADER, CellFileHeader, GROUP_CELLS, Raster};
use layercast_sim::file;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{MAX_CLIP, all, failed, json};

/// What can be asked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// Videos that share the buffer of a link.
    Run { settings: Vec<Setting> },
    /// A transport stream in cells of which some are lost.
    Losses {
        file: PathBuf,
        settings: Vec<LossSetting>,
    },
    /// Cells behind a parity matrix.
    Matrix { settings: Vec<MatrixSetting> },
    /// A transport stream whose parities follow the loss of its path.
    Adaptive {
        file: PathBuf,
        settings: Vec<AdaptiveSetting>,
    },
    /// A raw picture of three octets a pixel of which cells are lost, concealed with the help of the one before; what is shown
    /// goes to `out`.
    Blocks {
        size: (usize, usize),
        file: PathBuf,
        before: PathBuf,
        out: PathBuf,
        setting: BlockSetting,
    },
    /// A file of cells in datagrams of which some are lost; the stream that comes out goes to `out`.
    Carried {
        file: PathBuf,
        out: PathBuf,
        rate: f64,
        burst: f64,
        seed: u64,
    },
    /// What bursts of each length cost a group of blocks.
    Geometry { order: BlockOrder },
    /// How much of a file is of each class.
    Classes { file: PathBuf },
}

/// Answers a question about picture quality.
#[pyfunction]
pub fn picture_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| match question {
        Question::Run { settings } => json(&all(settings.iter().map(Setting::run))?),
        Question::Losses { file, settings } => {
            let data = read(&file)?;
            let packets = data.as_chunks().0;
            json(&all(settings.iter().map(|it| it.run(packets)))?)
        }
        Question::Matrix { settings } => json(&all(settings.iter().map(MatrixSetting::run))?),
        Question::Adaptive { file, settings } => {
            let data = read(&file)?;
            let packets = data.as_chunks().0;
            json(&all(settings.iter().map(|it| it.run(packets)))?)
        }
        Question::Blocks {
            size,
            file,
            before,
            out,
            setting,
        } => {
            let picture = |path: &Path| {
                let picture = Raster::new(size.0, size.1, &read(path)?);
                picture.ok_or_else(|| failed(format!("{}: not of {size:?}", path.display())))
            };
            let (whole, before) = (picture(&file)?, picture(&before)?);
            let (run, shown) = setting.run(&whole, Some(&before)).map_err(failed)?;
            std::fs::write(&out, shown.pixels().as_flattened()).map_err(failed)?;
            json(&run)
        }
        Question::Carried {
            file,
            out,
            rate,
            burst,
            seed,
        } => {
            let data = read(&file)?;
            let header = CellFileHeader::decode(&data).map_err(failed)?;
            let cells = CellFileHeader::cells(&data[CELL_FILE_HEADER..]);
            let cells: Vec<_> = cells.collect::<Result<_, _>>().map_err(failed)?;
            let setting = CarriedSetting { rate, burst, seed };
            let (run, packets) = setting.run(&header, &cells).map_err(failed)?;
            std::fs::write(&out, packets.as_flattened()).map_err(failed)?;
            json(&run)
        }
        Question::Geometry { order } => {
            let all: Vec<BlockGeometry> = (1..=GROUP_CELLS)
                .map(|burst| BlockGeometry::of(order, burst))
                .collect();
            json(&all)
        }
        Question::Classes { file } => {
            let report = ClassCensus::of(&read(&file)?, ClassifierConfig::default());
            json(&report.map_err(failed)?)
        }
    })
}

fn read(path: &Path) -> PyResult<Vec<u8>> {
    Ok(file::read(path, MAX_CLIP)?)
}
