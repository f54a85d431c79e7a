//! Resumable and atomic downloads, with several attempts and limits.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use super::content::Content;
use crate::error::{DataError, RequestProblem, Result};

/// What a download may be, and how long it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// What the file must hold.
    pub content: Content,
    /// Most bytes of the file. A server may send without end.
    pub bytes: u64,
    /// Longest wait for the connection, for the response, and for the next byte.
    pub stall: Duration,
}

impl DownloadLimits {
    /// Limits for a file of some content: 16 MB for texts, 4 GB for Parquet, and a minute.
    pub fn new(content: Content) -> Self {
        let bytes = if content == Content::Parquet { 4 << 30 } else { 16 << 20 };
        Self { content, bytes, stall: Duration::from_secs(60) }
    }
}

/// State of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// Bytes received so far, including those of earlier attempts.
    pub done: u64,
    /// Total number of bytes, if the server reports it.
    pub total: Option<u64>,
}

/// Most attempts of one download, including the first.
const ATTEMPTS: usize = 4;

/// Downloads `url` to `path`.
///
/// Bytes arrive in `path` + `.part`. A later call, also in a later run, resumes an interrupted
/// download there if the server's copy is unchanged by its entity tag. The file gets its name when
/// it is complete and holds what it should.
///
/// # Errors
/// If the server refuses, cannot be reached, or stops sending; the partial file stays for the next
/// attempt. Also if the server sends more than the limit, or something else than the content; no
/// file stays then.
pub fn download(url: &str, path: &Path, limits: &DownloadLimits, progress: &mut dyn FnMut(Progress<'_>)) -> Result<()> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(limits.stall))
        .timeout_recv_response(Some(limits.stall))
        .timeout_per_read(Some(limits.stall))
        .timeout_per_write(Some(limits.stall))
        .user_agent(concat!("graph-transformer/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let partial = Partial::new(path, *limits);
    let mut attempt = 1;
    loop {
        match partial.receive(&agent, url, progress) {
            Ok(()) => break,
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Unwanted(message)) => {
                partial.remove();
                return Err(RequestProblem::Download { url: url.into(), message, kept: None }.into());
            }
            Err(Failure::Broken(message)) if attempt >= ATTEMPTS => {
                let kept = partial.length();
                return Err(RequestProblem::Download { url: url.into(), message, kept: Some(kept) }.into());
            }
            Err(Failure::Broken(_)) => attempt += 1,
        }
    }
    fs::rename(&partial.data, path).map_err(|e| DataError::io(path, e))?;
    gt_graph::sync_folder(path.parent().unwrap_or(path)).map_err(|e| DataError::io(path, e))?;
    let _ = fs::remove_file(&partial.tag);
    Ok(())
}

enum Failure {
    /// An error that another attempt does not solve.
    Final(DataError),
    /// The server sends something that must not be kept.
    Unwanted(String),
    /// The connection broke.
    Broken(String),
}

struct Partial {
    data: PathBuf,
    /// Entity tag of the copy that the bytes in `data` belong to.
    tag: PathBuf,
    name: String,
    limits: DownloadLimits,
}

impl Partial {
    fn new(path: &Path, limits: DownloadLimits) -> Self {
        let with = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { data: with(".part"), tag: with(".part.tag"), name, limits }
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.data);
        let _ = fs::remove_file(&self.tag);
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.data).map_or(0, |m| m.len())
    }

    fn receive(&self, agent: &Agent, url: &str, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), Failure> {
        let io = |e| Failure::Final(DataError::io(&self.data, e));
        let tag = fs::read_to_string(&self.tag).unwrap_or_default();
        // Without a tag, the partial file may belong to another version of the server's copy.
        let kept = if tag.is_empty() { 0 } else { self.length() };
        let mut request = agent.get(url);
        if kept > 0 {
            request = request.header("Range", format!("bytes={kept}-")).header("If-Range", &tag);
        }
        let mut response = request.call().map_err(|e| Failure::Broken(e.to_string()))?;
        let status = response.status();
        let start = match status {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if kept > 0 && range_start(&response) == Some(kept) => kept,
            // No byte is left to send: the partial file is complete, or its tag is wrong.
            StatusCode::RANGE_NOT_SATISFIABLE if kept > 0 => {
                if full_length(&response) == Some(kept) {
                    return self.check_content();
                }
                fs::remove_file(&self.data).map_err(io)?;
                return Err(Failure::Broken("the partial file did not fit and was dropped".into()));
            }
            _ if status.is_server_error() => return Err(Failure::Broken(format!("the server answered {status}"))),
            _ => {
                let message = format!("the server answered {status}");
                let refused = RequestProblem::Download { url: url.into(), message, kept: None };
                return Err(Failure::Final(refused.into()));
            }
        };
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        fs::write(&self.tag, header("etag").filter(|tag| !tag.starts_with("W/")).unwrap_or_default()).map_err(io)?;
        let total = header("content-length").and_then(|v| v.parse::<u64>().ok()).map(|length| start + length);
        if let Some(total) = total.filter(|&total| total > self.limits.bytes) {
            return Err(Failure::Unwanted(format!("the file has {total} bytes, {} are allowed", self.limits.bytes)));
        }
        let mut out = OpenOptions::new()
            .create(true)
            .truncate(start == 0)
            .append(start > 0)
            .write(true)
            .open(&self.data)
            .map_err(io)?;
        self.copy(&mut response, &mut out, start, total, progress)
    }

    fn copy(
        &self,
        response: &mut Response<Body>,
        out: &mut File,
        start: u64,
        total: Option<u64>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Failure> {
        let io = |e| Failure::Final(DataError::io(&self.data, e));
        let mut done = start;
        let mut body = response.body_mut().as_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            progress(Progress { name: &self.name, done, total });
            let read = body.read(&mut buffer).map_err(|e| Failure::Broken(e.to_string()))?;
            if read == 0 {
                break;
            }
            out.write_all(&buffer[..read]).map_err(io)?;
            done += read as u64;
            if done > self.limits.bytes {
                let most = self.limits.bytes;
                return Err(Failure::Unwanted(format!(
                    "the server sends more than {most} bytes, and no more are allowed"
                )));
            }
        }
        if total.is_some_and(|total| done != total) {
            return Err(Failure::Broken(format!("the connection ended after {done} of {} bytes", total.unwrap_or(0))));
        }
        out.sync_all().map_err(io)?;
        self.check_content()
    }

    fn check_content(&self) -> Result<(), Failure> {
        let problem = self.limits.content.problem(&self.data);
        match problem.map_err(|e| Failure::Final(DataError::io(&self.data, e)))? {
            None => Ok(()),
            Some(problem) => Err(Failure::Unwanted(problem)),
        }
    }
}

/// Position of the first byte in a partial answer, such as 100 in `bytes 100-199/200`.
fn range_start(response: &Response<Body>) -> Option<u64> {
    let range = response.headers().get("content-range")?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// Length of the file in the answer to a range beyond its end, such as 200 in `bytes */200`.
fn full_length(response: &Response<Body>) -> Option<u64> {
    response.headers().get("content-range")?.to_str().ok()?.strip_prefix("bytes */")?.parse().ok()
}
