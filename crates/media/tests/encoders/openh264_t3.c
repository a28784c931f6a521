// Encodes raw video (yuv420p, standard input) as H.264 with three temporal layers in prefix NAL units (standard output), by
// OpenH264.
//
// Usage: openh264_t3 WIDTH HEIGHT KBPS GOP < in.yuv > out.h264          (cc openh264_t3.c -lopenh264)
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wels/codec_api.h>

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: openh264_t3 WIDTH HEIGHT KBPS GOP\n");
        return 2;
    }
    int width = atoi(argv[1]), height = atoi(argv[2]), bps = atoi(argv[3]) * 1000, gop = atoi(argv[4]);
    ISVCEncoder *encoder;
    if (WelsCreateSVCEncoder(&encoder) != 0) return 1;
    SEncParamExt config;
    (*encoder)->GetDefaultParams(encoder, &config);
    config.iUsageType = CAMERA_VIDEO_REAL_TIME;
    config.iPicWidth = width;
    config.iPicHeight = height;
    config.iTargetBitrate = config.iMaxBitrate = bps;
    config.iRCMode = RC_BITRATE_MODE;
    config.fMaxFrameRate = 25;
    config.iTemporalLayerNum = 3;
    config.iSpatialLayerNum = 1;
    config.uiIntraPeriod = gop;
    config.bEnableFrameSkip = false;
    config.bPrefixNalAddingCtrl = true;
    config.iMultipleThreadIdc = 1;
    config.sSpatialLayers[0].iVideoWidth = width;
    config.sSpatialLayers[0].iVideoHeight = height;
    config.sSpatialLayers[0].fFrameRate = 25;
    config.sSpatialLayers[0].iSpatialBitrate = config.sSpatialLayers[0].iMaxSpatialBitrate = bps;
    if ((*encoder)->InitializeExt(encoder, &config) != 0) {
        fprintf(stderr, "openh264_t3: the settings are refused\n");
        return 1;
    }
    size_t size = (size_t)width * height * 3 / 2;
    unsigned char *pixels = malloc(size);
    SSourcePicture picture;
    memset(&picture, 0, sizeof picture);
    picture.iColorFormat = videoFormatI420;
    picture.iPicWidth = width;
    picture.iPicHeight = height;
    picture.iStride[0] = width;
    picture.iStride[1] = picture.iStride[2] = width / 2;
    picture.pData[0] = pixels;
    picture.pData[1] = pixels + width * height;
    picture.pData[2] = picture.pData[1] + width * height / 4;
    for (long long n = 0; fread(pixels, 1, size, stdin) == size; n++) {
        SFrameBSInfo out;
        memset(&out, 0, sizeof out);
        picture.uiTimeStamp = n * 40;
        if ((*encoder)->EncodeFrame(encoder, &picture, &out) != 0) return 1;
        for (int i = 0; i < out.iLayerNum; i++) {
            int length = 0;
            for (int j = 0; j < out.sLayerInfo[i].iNalCount; j++) length += out.sLayerInfo[i].pNalLengthInByte[j];
            fwrite(out.sLayerInfo[i].pBsBuf, 1, length, stdout);
        }
    }
    (*encoder)->Uninitialize(encoder);
    WelsDestroySVCEncoder(encoder);
    free(pixels);
    return fflush(stdout) != 0;
}
