#!/usr/bin/env nextflow
/*
 * Normalise the scans of a table with Nextflow, one task per scan:
 *
 *     nextflow run main.nf --table study.tsv --out results
 *
 * fits the density of every scan, averages them into results/reference.json, and brings every scan
 * to this reference: results/images/NAME.nii.gz, with its sidecar NAME.json. The table is that of
 * `ndflow cohort`: tab-separated, with a column `image`, and optionally `mask`, `lesion`, `csf`, `gm`
 * and `wm`; paths are relative to the table. Run it again with -resume after a failure.
 *
 * Further settings: --channel T1w; --options '--dtype int16' for `ndflow normalise`.
 */

// A file that the table names, relative to its folder; an empty list where it names none.
def given(folder, row, column) {
    def name = row[column]
    return name && name != 'n/a' ? file("${folder.resolve(name)}", checkIfExists: true) : []
}

// The options that name the mask of a scan, its lesions and its tissue maps.
def options(mask, lesion, csf, gm, wm) {
    def named = ['--mask ': mask, '--exclude ': lesion, '--tissue-maps csf=': csf,
        '--tissue-maps gm=': gm, '--tissue-maps wm=': wm]
    return named.collect { option, value -> value ? "${option}${value}" : '' }.join(' ')
}

process FIT {
    tag "${scan}"
    publishDir "${params.out}/models", mode: 'copy'

    input:
    tuple val(scan), path(image, stageAs: 'scan/*'), path(mask, stageAs: 'mask/*'),
        path(lesion, stageAs: 'lesion/*'), path(csf, stageAs: 'csf/*'),
        path(gm, stageAs: 'gm/*'), path(wm, stageAs: 'wm/*')

    output:
    path "${scan}.json"

    script:
    def files = options(mask, lesion, csf, gm, wm)
    """
    ndflow fit ${image} ${files} -o '${scan}.json'
    """
}

process REFERENCE {
    publishDir params.out, mode: 'copy'

    input:
    path(mixtures, stageAs: 'models/*')

    output:
    path 'reference.json'

    script:
    """
    ndflow reference models/*.json --channel '${params.channel}' -o reference.json
    """
}

process NORMALISE {
    tag "${scan}"
    publishDir "${params.out}/images", mode: 'copy'

    input:
    tuple val(scan), path(image, stageAs: 'scan/*'), path(mask, stageAs: 'mask/*'),
        path(lesion, stageAs: 'lesion/*'), path(csf, stageAs: 'csf/*'),
        path(gm, stageAs: 'gm/*'), path(wm, stageAs: 'wm/*')
    path reference

    output:
    tuple val(scan), path("${scan}.nii.gz"), path("${scan}.json")

    script:
    def files = options(mask, lesion, csf, gm, wm)
    """
    ndflow normalise ${image} ${files} --to ${reference} ${params.options} -o '${scan}.nii.gz'
    """
}

workflow {
    def folder = file(params.table, checkIfExists: true).parent
    scans = channel.fromPath(params.table)
        .splitCsv(header: true, sep: '\t')
        .map { row ->
            def image = given(folder, row, 'image')
            def scan = image.name.replaceAll(/\.(nii\.gz|nii|mgz|mgh|hdr|img)$/, '')
            def files = ['mask', 'lesion', 'csf', 'gm', 'wm'].collect { column -> given(folder, row, column) }
            [scan, image] + files
        }
    mixtures = FIT(scans)
    // Sorted, so that -resume sees the same list whichever scan is done first.
    reference = REFERENCE(mixtures.toSortedList { one, other -> one.name <=> other.name })
    NORMALISE(scans, reference)
}
