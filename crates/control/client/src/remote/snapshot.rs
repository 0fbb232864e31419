//! `dunlin zones snapshot`, `restore` and `salvage`: all zones of the store as one file.
use super::client::{ApiClient, ApiRequest, CommandResult};
use super::{all_zones, byte_bar, condition, confirm, query, write_json};
use crate::cli::{Output, RestoreSnapshot, Salvage, TakeSnapshot};
use crate::limits::REMOVED_SHOWN_MAX;
use command_line::{plain, plural};
use durable::files::{self, Folder};
use hyper::Method;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use store::snapshot::{self, FORMAT};
use store::{Revision, SalvageStore, SalvagedZone};

const SNAPSHOT: &str = "/v1/snapshot";
const MEDIA: &str = "application/octet-stream";

/// Writes a snapshot to a temporary file, verifies it, and renames it into place.
pub fn take(take: &TakeSnapshot) -> CommandResult<()> {
    let api = ApiClient::new(&take.server)?;
    let written = replace(&take.file, |file| {
        let len = download(&api, file)?;
        let (revision, zones) = check(file)?;
        let zones = zones.len();
        match take.format {
            FORMAT => Ok((len, (revision, zones), Vec::new())),
            format => {
                let lost = convert(&take.file, file, revision, format)?;
                check(file)?;
                Ok((file.metadata()?.len(), (revision, zones), lost))
            }
        }
    })?;
    let (len, (revision, zones), lost) = written;
    match take.server.output {
        Output::Json => write_json(&serde_json::json!({
            "file": take.file, "bytes": len, "revision": revision.0, "zones": zones,
            "format": take.format, "lost": lost,
        }))?,
        Output::Text => {
            for set in &lost {
                eprintln!("lost: {}", plain(set));
            }
            let (zones, file) = (plural(zones, "zone"), take.file.display());
            writeln!(io::stdout().lock(), "{zones} as of revision {revision} in {file}")?;
        }
    }
    Ok(())
}

/// Writes the snapshot in a file again, in an older format. Returns what is lost.
fn convert(
    path: &Path,
    file: &mut File,
    revision: Revision,
    format: u8,
) -> CommandResult<Vec<String>> {
    let mut name = path.to_owned().into_os_string();
    name.push(".converted");
    let name = Path::new(&name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let mut converted = options.open(name).map_err(|why| format!("{}: {why}", name.display()))?;
    // Its name is not needed any more.
    fs::remove_file(name)?;
    file.rewind()?;
    let mut out = BufWriter::new(&converted);
    let lost = snapshot::convert(&mut BufReader::new(&*file), &mut out, revision, format)?;
    out.flush()?;
    drop(out);
    converted.rewind()?;
    file.rewind()?;
    file.set_len(0)?;
    io::copy(&mut converted, file)?;
    Ok(lost.iter().map(ToString::to_string).collect())
}

/// Writes a temporary file in the same folder and renames it to `path` when it is complete.
fn replace<T>(path: &Path, write: impl FnOnce(&mut File) -> CommandResult<T>) -> CommandResult<T> {
    if path.is_dir() {
        return Err(format!("{}: it is a folder: name a file in it", path.display()).into());
    }
    let describe = |why: io::Error| format!("{}: {why}", path.display());
    let (folder, name) = files::split(path).map_err(describe)?;
    let folder = Folder::open(folder).map_err(describe)?;
    folder.replace(name, 0o600, write).map_err(|why| match why.downcast::<io::Error>() {
        Ok(why) => describe(*why).into(),
        Err(why) => why,
    })
}

/// Writes the readable part of a damaged store.
pub fn salvage(salvage: &Salvage, salvage_store: SalvageStore) -> CommandResult<()> {
    let report = replace(&salvage.file, |file| {
        let mut out = BufWriter::new(&*file);
        let report = salvage_store(&salvage.data_dir, &mut out)?;
        out.flush()?;
        drop(out);
        check(file)?;
        Ok(report)
    })?;
    let lost = |zone: &SalvagedZone| zone.lost;
    if salvage.output == Output::Json {
        let zones = report.zones.iter().map(|zone| {
            serde_json::json!({ "zone": zone.origin, "rrsets": zone.sets, "lost": zone.lost })
        });
        let zones: Vec<_> = zones.collect();
        return Ok(write_json(&serde_json::json!({
            "file": salvage.file, "revision": report.revision.0, "zones": zones,
            "damage": report.damage
        }))?);
    }
    let mut out = io::stdout().lock();
    report.damage.iter().try_for_each(|why| writeln!(out, "{why}"))?;
    for zone in report.zones.iter().filter(|zone| zone.lost > 0) {
        let all = zone.sets + zone.lost;
        writeln!(out, "{}: {} of {all} record sets lost", zone.origin, zone.lost)?;
    }
    let (zones, file) = (plural(report.zones.len(), "zone"), salvage.file.display());
    let lost: u64 = report.zones.iter().map(lost).sum();
    let lost = plural(lost as usize, "record set");
    writeln!(out, "{zones} as of revision {} in {file}; {lost} lost", report.revision)?;
    Ok(())
}

fn download(api: &ApiClient, file: &mut File) -> CommandResult<u64> {
    let (bar, mut len) = (byte_bar(None), 0);
    let mut out = BufWriter::new(file);
    let each = |more| {
        len += more as u64;
        bar.set_position(len);
    };
    let done = api.download(SNAPSHOT.to_owned(), MEDIA, &mut out, each);
    bar.finish_and_clear();
    done?;
    out.flush()?;
    Ok(len)
}

/// Verifies a snapshot. Returns its revision and the names of its zones.
fn check(file: &mut File) -> CommandResult<(Revision, HashSet<String>)> {
    file.rewind()?;
    let mut zones = HashSet::new();
    let revision = store::snapshot::read(&mut BufReader::new(&*file), &mut |item| {
        if let store::snapshot::SnapshotItem::Zone(origin, ..) = item {
            zones.insert(origin.to_string().to_ascii_lowercase());
        }
        Ok(())
    })?;
    file.rewind()?;
    Ok((revision, zones))
}

/// The zones of the store that are not among these. Those of a store that cannot be read are not
/// known.
fn removed_by(api: &ApiClient, kept: &HashSet<String>) -> Vec<String> {
    let zones = all_zones(api).unwrap_or_default();
    let of_store = zones.iter().filter(|zone| zone["owner"] == "store");
    let names = of_store.filter_map(|zone| zone["name"].as_str().map(str::to_ascii_lowercase));
    names.filter(|name| !kept.contains(name)).collect()
}

/// Replaces the content of the store with a snapshot.
pub fn restore(restore: &RestoreSnapshot) -> CommandResult<()> {
    let describe = |why| format!("{}: {why}", restore.file.display());
    let mut file = File::open(&restore.file).map_err(|why| describe(why.to_string()))?;
    let (revision, zones) = check(&mut file).map_err(|why| describe(why.to_string()))?;
    let api = ApiClient::new(&restore.server)?;
    let removed = removed_by(&api, &zones);
    let count = plural(zones.len(), "zone");
    let mut what = format!("replace the store's content by {count} as of revision {revision}");
    if !removed.is_empty() {
        let more = if removed.len() > REMOVED_SHOWN_MAX { ", …" } else { "" };
        let shown = removed.iter().take(REMOVED_SHOWN_MAX).map(|zone| plain(zone));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let gone = plural(removed.len(), "zone");
        let gone = format!("{gone} that the snapshot does not have: {shown}{more}");
        what += &format!(", and remove {gone}");
        if restore.yes {
            eprintln!("removes {gone}");
        }
    }
    confirm(restore.yes, &what)?;
    let bar = byte_bar(file.metadata().ok().map(|found| found.len()));
    let shown = bar.clone();
    let query = query(restore.options.reason.as_ref());
    let mut request = ApiRequest::new(Method::PUT, format!("{SNAPSHOT}?{query}"));
    request.fields = condition(&restore.options, None);
    let each = move |len| shown.inc(len as u64);
    let sent = api.upload(request, MEDIA, file, each);
    bar.finish_and_clear();
    let mut receipt = sent?.body;
    match restore.server.output {
        Output::Json => {
            receipt["removed"] = removed.into();
            write_json(&receipt)?
        }
        Output::Text => {
            let live = &receipt["revision"];
            writeln!(io::stdout().lock(), "{count} restored, and live as revision {live}")?;
        }
    }
    Ok(())
}
