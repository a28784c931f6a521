//! What `layercast sim` writes of a scenario of layered flows: a capture, the streams that the receivers play, and the summary.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use layercast_core::{Media, Span};
use layercast_sim::internet::PointSink;
use layercast_sim::scenario::Network;
use layercast_sim::{Outputs, SimSummary};

use crate::demo;
use crate::failure::{Failure, Outcome};
use crate::internet::series::SeriesFile;
use crate::output;

/// The files of a run.
pub struct OutFiles {
    pcap: Option<OutFile>,
    folder: Option<PathBuf>,
    /// With the time between its points.
    series: Option<(Span, SeriesFile)>,
    /// One for each receiver, in the order of the scenario; none without a folder.
    streams: Vec<OutFile>,
}

/// A file that is created when its first octets are there.
struct OutFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    failed: bool,
}

impl OutFiles {
    /// A capture, if there is a path for it, and streams, if there is a folder, which is made.
    pub fn new(
        pcap: Option<&Path>,
        folder: Option<&Path>,
        series: Option<(Span, &Path)>,
        network: &Network,
    ) -> Result<OutFiles, Failure> {
        let pcap = match pcap {
            Some(path) => Some(OutFile {
                file: Some(BufWriter::new(output::create(path)?)),
                ..OutFile::new(path.to_owned())
            }),
            None => None,
        };
        let series = match series {
            Some((every, path)) => Some((every, SeriesFile::create(path)?)),
            None => None,
        };
        if let Some(folder) = folder {
            fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "make", &error))?;
        }
        let streams = folder.into_iter().flat_map(|folder| {
            network.receivers.iter().map(|receiver| {
                let media: Media = network.flows[receiver.flow].config.flow.spec.media;
                let name = format!("{}.{}", receiver.name, demo::extension(media));
                OutFile::new(folder.join(name))
            })
        });
        Ok(OutFiles {
            pcap,
            streams: streams.collect(),
            series,
            folder: folder.map(Path::to_owned),
        })
    }

    /// The same for the simulator.
    pub fn outputs(&mut self) -> Outputs<'_> {
        fn writer(file: &mut OutFile) -> &mut (dyn Write + Send) {
            file
        }
        Outputs {
            pcap: self.pcap.as_mut().map(writer),
            streams: self.streams.iter_mut().map(writer).collect(),
            series: self.series.as_mut().map(|(every, file)| {
                let sink: &mut (dyn PointSink + Send) = file;
                (*every, sink)
            }),
        }
    }

    /// The failure of a run that could not write one of them.
    pub fn failure(&self, error: &io::Error) -> Failure {
        let mut files = self.pcap.iter().chain(&self.streams);
        let file = files.find(|file| file.failed);
        Failure::file(
            file.map_or(Path::new("-"), |it| it.path.as_path()),
            "write",
            error,
        )
    }

    /// Makes sure that everything is in the files, and writes the summary.
    pub fn finish(self, summary: &SimSummary) -> Outcome {
        for mut file in self.pcap.into_iter().chain(self.streams) {
            let flushed = file.flush();
            flushed.map_err(|error| Failure::file(&file.path, "write", &error))?;
        }
        if let Some((_, series)) = self.series {
            series.finish()?;
        }
        let Some(folder) = self.folder else {
            return Ok(());
        };
        let path = folder.join("summary.json");
        let text = serde_json::to_string_pretty(summary).map_err(Failure::new)?;
        fs::write(&path, text + "\n").map_err(|error| Failure::file(&path, "write", &error))
    }
}

impl OutFile {
    fn new(path: PathBuf) -> OutFile {
        OutFile {
            path,
            file: None,
            failed: false,
        }
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.failed |= result.is_err();
        result
    }
}

impl Write for OutFile {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let opened = match self.file.take() {
            Some(file) => Ok(file),
            None => File::create(&self.path).map(BufWriter::new),
        };
        let mut file = self.note(opened)?;
        let written = file.write(octets);
        self.file = Some(file);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
        self.note(flushed)
    }
}
