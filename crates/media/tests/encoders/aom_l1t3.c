// Encodes raw video (yuv420p, standard input) as AV1 with three temporal layers (L1T3) in IVF (standard output), with the
// pattern of libaom's own example: of four frames the first is of layer 0, the third of layer 1, the others of layer 2.
//
// Usage: aom_l1t3 WIDTH HEIGHT KBPS GOP < in.yuv > out.ivf          (cc aom_l1t3.c -laom)
#include <aom/aom_encoder.h>
#include <aom/aomcx.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void le(uint8_t *at, uint64_t value, int octets) {
    for (int i = 0; i < octets; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static void check(aom_codec_ctx_t *codec, aom_codec_err_t error, const char *what) {
    if (error == AOM_CODEC_OK) return;
    const char *detail = aom_codec_error_detail(codec);
    fprintf(stderr, "aom_l1t3: %s: %s %s\n", what, aom_codec_err_to_string(error), detail ? detail : "");
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: aom_l1t3 WIDTH HEIGHT KBPS GOP\n");
        return 2;
    }
    int width = atoi(argv[1]), height = atoi(argv[2]), kbps = atoi(argv[3]), gop = atoi(argv[4]);
    aom_codec_iface_t *encoder = aom_codec_av1_cx();
    aom_codec_enc_cfg_t config;
    aom_codec_ctx_t codec;
    check(&codec, aom_codec_enc_config_default(encoder, &config, AOM_USAGE_REALTIME), "config");
    config.g_w = width;
    config.g_h = height;
    config.g_timebase.num = 1;
    config.g_timebase.den = 25;
    config.g_threads = 1;
    config.g_lag_in_frames = 0;
    config.g_error_resilient = 0;
    config.rc_end_usage = AOM_CBR;
    config.rc_target_bitrate = kbps;
    config.kf_mode = AOM_KF_DISABLED;
    check(&codec, aom_codec_enc_init(&codec, encoder, &config, 0), "init");
    aom_codec_control(&codec, AOME_SET_CPUUSED, 8);
    aom_codec_control(&codec, AV1E_SET_ENABLE_ORDER_HINT, 0);
    aom_svc_params_t layers;
    memset(&layers, 0, sizeof layers);
    layers.number_spatial_layers = 1;
    layers.number_temporal_layers = 3;
    layers.scaling_factor_num[0] = layers.scaling_factor_den[0] = 1;
    const int decimator[3] = {4, 2, 1}, share[3] = {50, 70, 100};
    for (int i = 0; i < 3; i++) {
        layers.framerate_factor[i] = decimator[i];
        layers.layer_target_bitrate[i] = kbps * share[i] / 100;
        layers.min_quantizers[i] = 2;
        layers.max_quantizers[i] = 56;
    }
    check(&codec, aom_codec_control(&codec, AV1E_SET_SVC_PARAMS, &layers), "layers");

    uint8_t header[32] = "DKIF";
    le(header + 6, 32, 2);
    memcpy(header + 8, "AV01", 4);
    le(header + 12, width, 2);
    le(header + 14, height, 2);
    le(header + 16, 25, 4);
    le(header + 20, 1, 4);
    fwrite(header, 1, sizeof header, stdout);

    aom_image_t *image = aom_img_alloc(NULL, AOM_IMG_FMT_I420, width, height, 1);
    for (int n = 0;; n++) {
        for (int plane = 0; plane < 3; plane++) {
            int w = plane ? (width + 1) / 2 : width, h = plane ? (height + 1) / 2 : height;
            for (int y = 0; y < h; y++) {
                uint8_t *row = image->planes[plane] + (size_t)y * image->stride[plane];
                if (fread(row, 1, w, stdin) != (size_t)w) {
                    aom_img_free(image);
                    aom_codec_destroy(&codec);
                    return ferror(stdin) || fflush(stdout) != 0;
                }
            }
        }
        int place = n % gop % 4, layer = place == 0 ? 0 : place == 2 ? 1 : 2;
        aom_svc_layer_id_t id = {0, layer};
        check(&codec, aom_codec_control(&codec, AV1E_SET_SVC_LAYER_ID, &id), "layer id");
        // LAST is in place 0. The place of GOLDEN, 1, has the frame of layer 1.
        aom_svc_ref_frame_config_t references;
        memset(&references, 0, sizeof references);
        for (int i = 0; i < 7; i++) references.ref_idx[i] = 7;
        references.ref_idx[0] = 0;
        references.ref_idx[3] = 1;
        references.reference[0] = 1;
        if (place == 0) references.refresh[0] = 1;
        if (place == 2) references.refresh[1] = 1;
        if (place == 3) references.reference[3] = 1;
        check(&codec, aom_codec_control(&codec, AV1E_SET_SVC_REF_FRAME_CONFIG, &references), "references");
        aom_enc_frame_flags_t flags = n % gop == 0 ? AOM_EFLAG_FORCE_KF : 0;
        check(&codec, aom_codec_encode(&codec, image, n, 1, flags), "encode");
        aom_codec_iter_t iter = NULL;
        const aom_codec_cx_pkt_t *packet;
        while ((packet = aom_codec_get_cx_data(&codec, &iter))) {
            if (packet->kind != AOM_CODEC_CX_FRAME_PKT) continue;
            uint8_t head[12];
            le(head, packet->data.frame.sz, 4);
            le(head + 4, n, 8);
            fwrite(head, 1, sizeof head, stdout);
            fwrite(packet->data.frame.buf, 1, packet->data.frame.sz, stdout);
        }
    }
}
