//! Scripts that run a sweep with an engine.
//!
//! Each script runs all shards, waits for them and merges. For a capacity search it goes on while
//! `merge` plans further rounds. Run again after a failure, it makes only what is missing.

use super::args::{Engine, SweepEmit};
use anyhow::Context as _;
use punctual_results::TaskPlan;

/// Shards for each job that runs at a time, by default: enough that a slow shard at the end is
/// short.
const SHARDS_PER_JOB: u32 = 4;

/// The default of Slurm's `MaxArraySize` is 1001, and an array with a larger index is refused.
const SLURM_ARRAY_MAX: u32 = 1001;

/// The longest name of an indexed job in Kubernetes: 63 characters with `-` and an index of up to
/// eight digits, because a pod's host name has both.
const KUBERNETES_NAME_MAX: usize = 54;

pub(super) fn recipe(args: &SweepEmit, plan: &TaskPlan) -> anyhow::Result<String> {
    let tasks = u32::try_from(plan.last_round().count()).unwrap_or(u32::MAX).max(1);
    let usual = args.jobs.saturating_mul(SHARDS_PER_JOB);
    let usual = match args.engine {
        Engine::Slurm => usual.min(SLURM_ARRAY_MAX),
        _ => usual,
    };
    let shards = args.shards.unwrap_or(usual).min(tasks);
    let dir = args.dir.canonicalize();
    let dir = dir.with_context(|| format!("cannot find {}", args.dir.display()))?;
    let recipe = Recipe {
        name: &plan.name,
        dir: quoted(&dir.display().to_string()),
        shards,
        jobs: args.jobs.min(shards),
    };
    Ok(match args.engine {
        Engine::Parallel => recipe.parallel(),
        Engine::Slurm => recipe.slurm(),
        Engine::Hyperqueue => recipe.hyperqueue(),
        Engine::Kubernetes => recipe.kubernetes(),
    })
}

struct Recipe<'a> {
    name: &'a str,
    /// The directory, quoted for a shell.
    dir: String,
    shards: u32,
    jobs: u32,
}

impl Recipe<'_> {
    fn parallel(&self) -> String {
        let Recipe { shards, jobs, .. } = self;
        self.script(
            "GNU parallel. For several machines add --sshlogin a,b (the directory is shared).",
            &format!(
                "parallel --jobs {jobs} --retries 3 --halt soon,fail=1 \\\n    \
                 \"$PUNCTUAL\" sweep run \"$DIR\" --threads 1 --quiet --shard '{{}}'/{shards} \\\n    \
                 ::: $(seq 0 {})",
                shards - 1
            ),
        )
    }

    fn slurm(&self) -> String {
        let Recipe { shards, jobs, .. } = self;
        self.script(
            "Slurm: a job array. Add --partition, --time and --account as your cluster needs them.",
            &format!(
                "export PUNCTUAL DIR\n  \
                 sbatch --wait --array=0-{}%{jobs} --cpus-per-task=1 --output=/dev/null \\\n    \
                 --job-name=punctual --export=ALL --wrap \\\n    \
                 '\"$PUNCTUAL\" sweep run \"$DIR\" --threads 1 --quiet --shard \
                 \"$SLURM_ARRAY_TASK_ID/{shards}\"'",
                shards - 1
            ),
        )
    }

    fn hyperqueue(&self) -> String {
        let Recipe { shards, .. } = self;
        self.script(
            "HyperQueue: a task array. Start `hq server start` and workers first.",
            &format!(
                "hq submit --wait --array=0-{} --cpus=1 --stdout=none --crash-limit=3 \\\n    \
                 --env PUNCTUAL=\"$PUNCTUAL\" --env DIR=\"$DIR\" -- sh -c \\\n    \
                 '\"$PUNCTUAL\" sweep run \"$DIR\" --threads 1 --quiet --shard \
                 \"$HQ_TASK_ID/{shards}\"'",
                shards - 1
            ),
        )
    }

    /// A script that runs the shards by `run` until nothing is left to run.
    fn script(&self, about: &str, run: &str) -> String {
        format!(
            "#!/bin/sh\n\
             # Runs the sweep {name} in {shards} shards and merges it. Run again after a failure:\n\
             # finished tasks are kept.\n\
             # {about}\n\
             set -u\n\
             PUNCTUAL=${{PUNCTUAL:-punctual}}\n\
             DIR={dir}\n\
             while :; do\n  \
               {run} || exit\n  \
               \"$PUNCTUAL\" sweep merge \"$DIR\" \"$@\" && exit\n  \
               code=$?\n  \
               # 10: a capacity search has another round.\n  \
               [ $code -eq 10 ] || exit $code\n\
             done\n",
            name = self.name,
            shards = self.shards,
            dir = self.dir,
        )
    }

    fn kubernetes(&self) -> String {
        let Recipe { name, dir, shards, jobs } = self;
        let job = job_name(name);
        format!(
            "# Runs the sweep {name} in {shards} shards: an indexed job.\n\
             # The image has `punctual` (cargo xtask dist writes a Containerfile). The claim\n\
             # `punctual` is shared storage that has a copy of {dir} as /sweep. Then\n\
             #   kubectl apply -f THIS && kubectl wait --for=condition=complete --timeout=-1s job/{job}\n\
             # and merge where the storage is mounted: punctual sweep merge DIR\n\
             # (exit code 10: delete the job and apply it again for the next round of a capacity search).\n\
             apiVersion: batch/v1\n\
             kind: Job\n\
             metadata:\n  \
               name: {job}\n\
             spec:\n  \
               completionMode: Indexed\n  \
               completions: {shards}\n  \
               parallelism: {jobs}\n  \
               backoffLimitPerIndex: 3\n  \
               template:\n    \
                 spec:\n      \
                   restartPolicy: Never\n      \
                   containers:\n        \
                     - name: punctual\n          \
                       image: punctual:latest\n          \
                       command: [\"sh\", \"-c\"]\n          \
                       args:\n            \
                         - exec punctual sweep run /sweep --threads 1 --quiet --shard \"$JOB_COMPLETION_INDEX/{shards}\"\n          \
                       resources:\n            \
                         requests: {{ cpu: \"1\", memory: 1Gi }}\n          \
                       volumeMounts:\n            \
                         - {{ name: sweep, mountPath: /sweep }}\n      \
                   volumes:\n        \
                     - name: sweep\n          \
                       persistentVolumeClaim: {{ claimName: punctual }}\n"
        )
    }
}

/// The name of the job in Kubernetes: small letters, digits and `-`, with a letter or digit at its
/// ends.
fn job_name(sweep: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name = format!("punctual-{}", sweep.chars().map(plain).collect::<String>());
    name[..name.len().min(KUBERNETES_NAME_MAX)].trim_end_matches('-').to_owned()
}

/// A text in single quotes, for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn job_name__is_one_of_kubernetes() {
        assert_eq!(job_name("Incast_10.5"), "punctual-incast-10-5");
        assert_eq!(job_name("last-."), "punctual-last");
        assert_eq!(job_name("\u{e4}\u{e4}"), "punctual");
        assert_eq!(job_name(&"long".repeat(30)).len(), KUBERNETES_NAME_MAX);
    }
}
