//! The C header and the Python module agree with this crate about the options.

use std::process::Command;

const PROGRAM: &str = r#"
#include "punctual.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	struct punctual_info info;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	printf("%zu %zu %zu %zu %zu\n", sizeof(struct punctual_deadline), sizeof(info),
	       offsetof(struct punctual_info, left_us), offsetof(struct punctual_info, d_sum),
	       offsetof(struct punctual_info, losses));
	if (punctual_set_deadline(fd, 1000, 1000) || punctual_clear_deadlines(fd) ||
	    punctual_get_info(fd, &info))
		return errno == ENOPROTOOPT || errno == EOPNOTSUPP ? 0 : 1;
	return 0;
}
"#;

#[test]
fn header__compiles_as_c_and_cxx_and_has_the_layout_of_this_crate() {
    let dir = tempfile::tempdir().expect("directory");
    for (compiler, file) in [("gcc", "program.c"), ("g++", "program.cc")] {
        if compiler == "g++" && Command::new(compiler).arg("--version").output().is_err() {
            continue;
        }
        let (source, program) = (dir.path().join(file), dir.path().join("program"));
        std::fs::write(&source, PROGRAM).expect("source");
        let built = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .arg(&source)
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
            .output()
            .expect("compiler");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let ran = Command::new(&program).output().expect("program");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "16 56 16 40 52\n");
        assert!(ran.status.success());
    }
}
